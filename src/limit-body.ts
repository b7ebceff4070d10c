/** The response with a body that fails after `maxBytes`, which bounds the memory for reading it. `received` may be shared by several. */
export function limitBody(response: Response, maxBytes: number, received = { bytes: 0 }): Response {
  if (response.body === null) return response;
  const limited = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        received.bytes += chunk.length;
        if (received.bytes > maxBytes) throw new Error(`The server sent more than ${maxBytes} bytes`);
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(limited, { status: response.status, headers: response.headers });
}
