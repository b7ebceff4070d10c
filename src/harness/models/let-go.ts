const drainMilliseconds = 1_000;

/**
 * Done with a stream. One that was cut short is cancelled, which ends its connection. Behind a complete answer only
 * the end is still to come: it is read, so that the connection can serve the next call.
 */
export function letGo(reader: ReadableStreamDefaultReader<unknown> | undefined, isComplete: boolean): void {
  if (reader === undefined) return;
  // A stream that failed has nothing left to cancel.
  const cancel = () => reader.cancel().catch(() => undefined);
  if (!isComplete) {
    cancel();
    return;
  }
  const timer = setTimeout(cancel, drainMilliseconds).unref();
  reader.read().then(
    (chunk) => {
      clearTimeout(timer);
      if (!chunk.done) cancel();
    },
    () => clearTimeout(timer),
  );
}
