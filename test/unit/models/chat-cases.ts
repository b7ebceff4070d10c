import type { ModelPart } from '../../../src/harness/model.ts';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { callOf, collect, neverAborted } from './provider-cases.ts';

/** A server that answers with these chunks, in memory, so that a thousand ways to cut a stream take no time. */
export function modelAnswering(chunks: (string | Uint8Array)[], headers: Record<string, string> = { 'content-type': 'text/event-stream' }) {
  const body = () => ReadableStream.from(chunks.map((chunk) => (typeof chunk === 'string' ? Buffer.from(chunk) : chunk)));
  const fetch = async () => new Response(body(), { headers });
  return createChatModel('llama', { baseUrl: 'http://127.0.0.1/v1/', apiKey: undefined, ask: fetch });
}

export function answer(...chunks: (string | Uint8Array)[]): Promise<ModelPart[]> {
  return collect(modelAnswering(chunks).stream(callOf(), neverAborted));
}

export const delta = (fields: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: fields, finish_reason: finish }] })}\n\n`;
export const done = 'data: [DONE]\n\n';
