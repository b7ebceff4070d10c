// An HTTP client that hides nothing: tests see statuses, headers, bytes and frames as they were sent.
import assert from 'node:assert/strict';
import { type Json, parseJson } from './json.ts';

export interface WireAnswer {
  status: number;
  headers: Headers;
  text: string;
  /** Parsed where it is JSON, undefined where it is not. */
  body: Json;
}

export interface Frame {
  event: string;
  data: Json;
  /** The frame's bytes, without the empty line that ends it. */
  raw: string;
}

export interface Wire {
  url: string;
  key: string;
  get(path: string, headers?: Record<string, string>): Promise<WireAnswer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<WireAnswer>;
  put(path: string, body?: unknown, headers?: Record<string, string>): Promise<WireAnswer>;
  patch(path: string, body?: unknown, headers?: Record<string, string>): Promise<WireAnswer>;
  delete(path: string, headers?: Record<string, string>): Promise<WireAnswer>;
  /** Opens a stream. Where the route needs `stream: true`, it is part of the body. */
  stream(path: string, body: unknown, headers?: Record<string, string>): Promise<EventStream>;
  /** Follows the log of a session of the demo organization until the signal aborts or the connection breaks. */
  follow(agent: string, sessionId: string, after: number, signal: AbortSignal): AsyncGenerator<LogEntry>;
}

export interface LogEntry {
  seq: number;
  type: string;
  [field: string]: unknown;
}

/** A body that is a string is sent as it is, anything else as JSON. Headers of a call replace the default ones. */
export function connect(url: string, key: string): Wire {
  async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(url + path, {
      method,
      headers: {
        ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  }
  const call = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
    read(await send(method, path, body, headers));
  return {
    url,
    key,
    get: (path, headers) => call('GET', path, undefined, headers),
    post: (path, body, headers) => call('POST', path, body, headers),
    put: (path, body, headers) => call('PUT', path, body, headers),
    patch: (path, body, headers) => call('PATCH', path, body, headers),
    delete: (path, headers) => call('DELETE', path, undefined, headers),
    async stream(path, body, headers) {
      const response = await send('POST', path, body, headers);
      if (response.status !== 200) assert.fail(`the stream did not start: ${response.status} ${await response.text()}`);
      return new EventStream(response);
    },
    async *follow(agent, sessionId, after, signal) {
      const path = `/demo/${agent}/v1/managed-agents/sessions/${sessionId}/events/stream?after=${after}`;
      const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` }, signal });
      for await (const { data } of readFrames(response)) yield data;
    },
  };
}

async function read(response: Response): Promise<WireAnswer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parseJson(text) };
}

/** Server-Sent Events, which are only read when the test asks for them. */
export class EventStream {
  readonly response: Response;
  private readonly frames: AsyncGenerator<Frame>;

  constructor(response: Response) {
    this.response = response;
    this.frames = readFrames(response);
  }

  /** The next frame; fails when the stream has ended. */
  async next(): Promise<Frame> {
    const { value, done } = await this.frames.next();
    if (done) assert.fail('the stream ended');
    return value;
  }

  /** Frames up to and including the first of this type. */
  async until(event: string): Promise<Frame[]> {
    const frames: Frame[] = [];
    do frames.push(await this.next());
    while (frames.at(-1)?.event !== event);
    return frames;
  }

  /** All frames until the stream's end. */
  async rest(): Promise<Frame[]> {
    const frames: Frame[] = [];
    for await (const frame of this.frames) frames.push(frame);
    return frames;
  }

  /** Breaks the connection. */
  async leave(): Promise<void> {
    await this.frames.return(undefined);
  }
}

async function* readFrames(response: Response): AsyncGenerator<Frame> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const raw = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (raw.startsWith(':')) continue;
      const lines = raw.split('\n');
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
      yield { event: field('event'), data: parseJson(field('data')), raw };
    }
  }
  if (rest !== '') assert.fail(`the stream ended inside a frame: ${rest}`);
}

/** The text of all `text` frames. */
export function textOf(frames: Frame[]): string {
  return frames.filter((frame) => frame.event === 'text').reduce((text, frame) => text + frame.data.data.part.text, '');
}
