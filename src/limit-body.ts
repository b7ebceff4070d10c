interface BodyLimit {
  maxBytes: number;
  /** May be shared by several responses. */
  received?: { bytes: number };
  /** Ends the reading, even if all of the body has come: what is compressed to a thousandth may take long to unpack. */
  signal?: AbortSignal | null | undefined;
}

/** The response with a body that fails after `maxBytes`, which bounds the memory for reading it. */
export function limitBody(response: Response, { maxBytes, received = { bytes: 0 }, signal }: BodyLimit): Response {
  if (response.body === null) return response;
  const limited = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        received.bytes += chunk.length;
        if (received.bytes > maxBytes) throw new Error(`The server sent more than ${maxBytes} bytes`);
        controller.enqueue(chunk);
      },
    }),
    signal ? { signal } : {},
  );
  return new Response(limited, { status: response.status, headers: response.headers });
}
