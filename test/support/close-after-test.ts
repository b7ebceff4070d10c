import { after } from 'node:test';

/** Closes its argument when the running test has ended. Returns the argument. */
export function closeAfterTest<Closable extends { close(): unknown }>(closable: Closable): Closable {
  after(() => void closable.close());
  return closable;
}
