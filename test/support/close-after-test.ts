import { afterEach } from 'node:test';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Closes its argument when the running test has ended. Returns the argument. */
export function closeAfterTest<Closable extends { close(): unknown }>(closable: Closable): Closable {
  closers.push(() => void closable.close());
  return closable;
}
