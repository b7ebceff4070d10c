import { afterEach } from 'node:test';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Gives back what it is given, and closes it when the test that is under way has ended. */
export function closeAfterTest<Closable extends { close(): unknown }>(closable: Closable): Closable {
  closers.push(() => void closable.close());
  return closable;
}
