// Loaded into a server before anything else (`node --import`): its clock is off by the seconds that stand in a file, which a test may change at any moment.
import { readFileSync } from 'node:fs';

const file = process.env.PARLEY_TEST_CLOCK ?? '';
const real = Date;
let offset = 0;
let readAt = Number.NEGATIVE_INFINITY;

function now(): number {
  // Timers and durations go by another clock, which never jumps.
  if (performance.now() - readAt > 20) {
    readAt = performance.now();
    offset = Number(readFileSync(file, 'utf8')) * 1_000;
  }
  return real.now() + offset;
}

globalThis.Date = new Proxy(real, {
  construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  apply: () => new real(now()).toString(),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});
