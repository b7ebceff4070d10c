// Loaded into a server before anything else (`node --import`): shifts its clock by the number of seconds in a file, which a test can change
// at any moment.
import { readFileSync } from 'node:fs';

const file = process.env.PARLEY_TEST_CLOCK ?? '';
const real = Date;
let offset = 0;
let readAt = Number.NEGATIVE_INFINITY;

function now(): number {
  // `performance.now`, like timers, uses a clock that never jumps.
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
