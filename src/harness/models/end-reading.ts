/** The part of a stream's reader that is used to read it. */
export type BodyReader<Chunk = Uint8Array> = Pick<ReadableStreamDefaultReader<Chunk>, 'read' | 'cancel'>;

const drainMs = 1_000;

/**
 * Lets go of a stream. One that was not read to its end is cancelled, which closes its connection. After a complete answer only the end
 * of the stream is missing: it is read, so that the connection can be used for the next call.
 */
export function endReading(reader: BodyReader<unknown> | undefined, isComplete: boolean): void {
  if (reader === undefined) return;
  // Cancelling a stream that failed rejects.
  const cancel = () => reader.cancel().catch(() => undefined);
  if (!isComplete) {
    cancel();
    return;
  }
  const timer = setTimeout(cancel, drainMs).unref();
  reader.read().then(
    (chunk) => {
      clearTimeout(timer);
      if (!chunk.done) cancel();
    },
    () => clearTimeout(timer),
  );
}
