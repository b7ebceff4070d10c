/** The response, whose body fails behind so many bytes: whoever reads it whole keeps no more in memory. */
export function limitBody(response: Response, maxBytes: number): Response {
  if (response.body === null) return response;
  let length = 0;
  const limited = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        length += chunk.length;
        if (length > maxBytes) throw new Error(`The server sent more than ${maxBytes} bytes`);
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(limited, { status: response.status, headers: response.headers });
}
