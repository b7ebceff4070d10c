import { errorMessage, ServiceError } from '../../errors.ts';
import { withoutFinalDots } from '../../text/final-dots.ts';
import { isRecord } from '../../text/json.ts';
import { failed, succeeded, type Tool, type ToolOutcome } from '../tool.ts';
import { excerpt, textField } from './input.ts';

/** Must be guarded: a model chooses the URL. */
export type ToolFetch = (url: string, init: RequestInit) => Promise<Response>;

export interface FetchToolOptions {
  fetch: ToolFetch;
  timeoutMs?: number;
}

const maxResponseBytes = 1024 * 1024;
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
// Headers of the connection and of its destination, which the model must not set.
const ownHeaders = /^(host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|keep-alive|proxy-.*|sec-.*)$/i;
const shownHeaders = ['content-type', 'content-length', 'location', 'last-modified', 'etag', 'retry-after', 'www-authenticate'];

export function createFetchTool({ fetch, timeoutMs = 30_000 }: FetchToolOptions): Tool {
  return {
    name: 'fetch',
    description: 'Send one HTTP request to a public HTTPS URL and read the answer as text.',
    inputSchema: {
      type: 'object',
      properties: {
        url: { type: 'string', description: 'https:// URL' },
        method: { type: 'string', enum: methods, description: 'GET unless given' },
        headers: { type: 'object', additionalProperties: { type: 'string' } },
        body: { type: 'string' },
      },
      required: ['url'],
      additionalProperties: false,
    },
    repeatable: false,
    guards: () => true,
    subject(input) {
      const text = textField(input, 'url') ?? '';
      const url = URL.parse(text);
      // `example.com.` is the same host as `example.com`: a rule for one holds for both.
      if (url !== null) url.hostname = withoutFinalDots(url.hostname);
      return url?.href ?? text;
    },
    problem(input) {
      const request = requestOf(input);
      return 'problem' in request ? request.problem : undefined;
    },
    prompt: (input) => `Send a ${methodOf(input)} request to ${excerpt(textField(input, 'url') ?? '')}?`,
    async run(input, { signal }) {
      const request = requestOf(input);
      if ('problem' in request) return failed(request.problem);
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        return await describe(await fetch(request.url, { ...request.init, signal: AbortSignal.any([signal, timeout]) }));
      } catch (error) {
        signal.throwIfAborted();
        if (timeout.aborted) return failed(`No complete answer within ${timeoutMs / 1_000} s`);
        return failed(problemOf(error));
      }
    },
  };
}

function requestOf(input: unknown): { url: string; init: RequestInit } | { problem: string } {
  const url = textField(input, 'url');
  if (url === undefined) return { problem: 'The url is missing' };
  const method = methodOf(input);
  if (!methods.includes(method)) return { problem: `The method must be one of ${methods.join(', ')}` };
  const given = isRecord(input) && isRecord(input.headers) ? input.headers : {};
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (ownHeaders.test(name)) return { problem: `The header ${name} cannot be set` };
    try {
      headers.set(name, String(value));
    } catch {
      return { problem: `The header ${excerpt(name, 100)} is not valid` };
    }
  }
  const body = textField(input, 'body');
  if (body === undefined) return { url, init: { method, headers } };
  if (method === 'GET' || method === 'HEAD') return { problem: `A ${method} request has no body` };
  return { url, init: { method, headers, body } };
}

async function describe(response: Response): Promise<ToolOutcome> {
  const { bytes, complete } = await readBounded(response);
  const lines = [`HTTP ${response.status}`];
  for (const name of shownHeaders) {
    const value = response.headers.get(name);
    if (value !== null) lines.push(`${name}: ${excerpt(value, 500)}`);
  }
  const text = decode(bytes, response.headers.get('content-type') ?? '');
  lines.push('', text ?? `[binary content of ${bytes.length} bytes, not shown]`);
  if (!complete) lines.push(`[the answer is longer than ${maxResponseBytes} bytes; the rest was not read]`);
  const output = lines.join('\n');
  return response.status >= 400 ? failed(output) : succeeded(output);
}

async function readBounded(response: Response): Promise<{ bytes: Uint8Array; complete: boolean }> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    // Leaving the loop cancels the rest.
    if (length > maxResponseBytes) return { bytes: Buffer.concat(chunks).subarray(0, maxResponseBytes), complete: false };
  }
  return { bytes: Buffer.concat(chunks), complete: true };
}

function decode(bytes: Uint8Array, contentType: string): string | undefined {
  if (bytes.subarray(0, 8_192).includes(0)) return undefined;
  const charset = /charset="?([\w.:-]+)/i.exec(contentType)?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

function methodOf(input: unknown): string {
  return (textField(input, 'method') ?? 'GET').toUpperCase();
}

function problemOf(error: unknown): string {
  if (error instanceof ServiceError) return error.message;
  return `The request failed: ${errorMessage(error instanceof Error && error.cause instanceof Error ? error.cause : error)}`;
}
