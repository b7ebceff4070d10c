import { type Model, type ModelCall, ModelError, type ModelPart } from '../model.ts';
import { createChatAnswer } from './chat-answer.ts';
import { chatBody, metadataKey } from './chat-request.ts';
import { contextLimitOf } from './context-limits.ts';
import { type BodyReader, endReading } from './end-reading.ts';
import { createEventSplitter } from './event-splitter.ts';
import { brokenOf, type Called, failureOf, maxStreamBytes, readFailure, tooLong } from './model-failure.ts';
import { readSettings } from './read-settings.ts';

const maxErrorBytes = 64 * 1024;
const maxBodyBytes = 8 * 1024 * 1024;
/** If an answer in one piece takes longer, later ones are streamed: proxies cut silent connections, and interrupted turns keep text. */
const longSilenceMs = 10_000;

/** As much of `fetch` as this wire uses. */
export type Ask = (
  url: string,
  init: { method: 'POST'; headers: Record<string, string>; body: string; signal: AbortSignal; redirect: 'manual' },
) => Promise<{ status: number; headers: Pick<Headers, 'get'>; body: { getReader(): BodyReader } | null }>;

interface ChatSettings {
  baseUrl: string;
  apiKey: string | undefined;
  ask: Ask;
}

/** A model of any server that speaks `/chat/completions`. */
export function createChatModel(name: string, { baseUrl, apiKey, ask }: ChatSettings): Model {
  const called: Called = { provider: metadataKey, apiKey };
  const url = `${baseUrl.replace(/\/+$/, '')}/chat/completions`;
  const host = URL.parse(url)?.host ?? '';
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (apiKey !== undefined) headers.authorization = `Bearer ${apiKey}`;
  /** False once an answer in one piece took too long or was refused. */
  let mayAnswerWhole = true;

  /** Unless the release sets `stream` itself. */
  function answersWhole(call: ModelCall): boolean {
    return mayAnswerWhole && readSettings(metadataKey, call.settings).providerOptions.stream === undefined;
  }

  async function* stream(call: ModelCall, signal: AbortSignal): AsyncGenerator<ModelPart> {
    signal.throwIfAborted();
    const whole = call.whole === true;
    const body = chatBody(name, call, host);
    const accept = whole ? 'application/json' : 'text/event-stream';
    const askedAt = performance.now();
    let isComplete = false;
    let reader: BodyReader | undefined;
    try {
      const response = await ask(url, { method: 'POST', headers: { ...headers, accept }, body, signal, redirect: 'manual' });
      reader = response.body?.getReader();
      if (response.status < 200 || response.status > 299)
        throw failureOf(called, readFailure(await readText(reader, maxErrorBytes), response.status, response.headers));
      const answer = createChatAnswer(called, call, host);
      // Some servers never stream and some always do, whatever was requested.
      const type = response.headers.get('content-type')?.toLowerCase() ?? '';
      if (whole ? !type.startsWith('text/event-stream') : type.startsWith('application/json')) {
        const { parts, failure } = answer.takeAll([await readText(reader, maxBodyBytes)]);
        yield* parts;
        if (failure !== undefined) throw failure;
      } else if (reader !== undefined) {
        const splitter = createEventSplitter();
        let bytes = 0;
        while (!answer.isComplete()) {
          const chunk = await reader.read();
          if (signal.aborted) throw signal.reason;
          // Comments have no content and compress a thousandfold: without a limit, a server could send them until the turn times out.
          bytes += chunk.value?.length ?? 0;
          if (bytes > maxStreamBytes) throw tooLong(called);
          const { parts, failure } = answer.takeAll(chunk.done ? splitter.end() : splitter.push(chunk.value));
          for (const part of parts) yield part;
          if (failure !== undefined) throw failure;
          if (chunk.done) break;
        }
      }
      const last = answer.finish();
      isComplete = true;
      for (const part of last) yield part;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const failure = error instanceof ModelError ? error : brokenOf(called, error);
      if (whole && failure.code === 'invalid_model_request') mayAnswerWhole = false;
      throw failure;
    } finally {
      if (whole && performance.now() - askedAt > longSilenceMs) mayAnswerWhole = false;
      endReading(reader, isComplete);
    }
  }

  return { provider: metadataKey, name, contextLimit: contextLimitOf(name), answersWhole, stream };
}

async function readText(reader: BodyReader | undefined, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  while (reader !== undefined && bytes < maxBytes) {
    const chunk = await reader.read();
    if (chunk.done) break;
    chunks.push(chunk.value);
    bytes += chunk.value.length;
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
