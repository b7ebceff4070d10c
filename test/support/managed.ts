// A client of the managed-agents API for tests: sends requests without a socket, and reads streams over a real one.
import assert from 'node:assert/strict';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { Answer, TestApp } from './app.ts';

export interface Entry {
  seq: number;
  type: string;
  [field: string]: unknown;
}

export interface Frame {
  id: string | undefined;
  event: string | undefined;
  data: Entry;
}

export interface FollowedStream extends AsyncIterable<Frame> {
  response: Response;
  /** Comment lines so far. */
  comments: string[];
  /** Breaks the connection, as closing a browser tab does. */
  leave(): void;
}

export class ManagedClient {
  readonly app: TestApp;
  readonly credential: string;
  readonly base: string;

  constructor(app: TestApp, credential: string = app.apiKey, agent = 'demo/assistant') {
    this.app = app;
    this.credential = credential;
    this.base = `/${agent}/v1/managed-agents`;
  }

  /** A client of the same agent with another credential. */
  as(credential: string): ManagedClient {
    return new ManagedClient(this.app, credential, this.base.slice(1).replace('/v1/managed-agents', ''));
  }

  request(method: 'GET' | 'POST' | 'OPTIONS', path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.app.request(method, `${this.base}${path}`, body, { authorization: `Bearer ${this.credential}`, ...headers });
  }

  async create(body?: unknown): Promise<string> {
    const answer = await this.request('POST', '/sessions', body);
    assert.equal(answer.status, 201, answer.text);
    return answer.body.id;
  }

  post(sessionId: string, event: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.request('POST', `/sessions/${sessionId}/events`, event, headers);
  }

  async say(sessionId: string, text: string): Promise<void> {
    const answer = await this.post(sessionId, { type: 'user.message', text });
    assert.equal(answer.status, 202, answer.text);
  }

  async state(sessionId: string): Promise<{ id: string; object: string; status: string; events: Entry[] }> {
    const answer = await this.request('GET', `/sessions/${sessionId}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  async follow(sessionId: string, query = '', headers: Record<string, string> = {}): Promise<FollowedStream> {
    return this.stream(`/sessions/${sessionId}/events/stream${query}`, headers);
  }

  async stream(path: string, headers: Record<string, string> = {}): Promise<FollowedStream> {
    const abort = new AbortController();
    const response = await fetch(`${await this.app.listen()}${this.base}${path}`, {
      headers: { authorization: `Bearer ${this.credential}`, ...headers },
      signal: abort.signal,
    });
    const comments: string[] = [];
    return {
      response,
      comments,
      leave: () => abort.abort(),
      [Symbol.asyncIterator]: () => readFrames(response, comments, abort.signal),
    };
  }

  /** The events after `after`, up to the next one that ends or pauses a turn. */
  async untilIdle(sessionId: string, after = 0): Promise<Entry[]> {
    const stream = await this.follow(sessionId, `?until=idle&after=${after}`);
    assert.equal(stream.response.status, 200);
    return (await collect(stream)).map((frame) => frame.data);
  }
}

export async function mintToken(app: TestApp, body: Record<string, unknown> = {}, agent = 'assistant'): Promise<string> {
  const answer = await app.request('POST', `/api/agents/${agent}/session_tokens`, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body.token;
}

/** All frames until the server ends the stream. */
export async function collect(stream: FollowedStream): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of stream) frames.push(frame);
  return frames;
}

/** Reads frames until `isLast`. The stream stays open, and the same iterator can be used again. */
export async function readUntil(iterator: AsyncIterator<Frame>, isLast: (frame: Frame) => boolean): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (;;) {
    const { value, done } = await iterator.next();
    if (done) throw new Error(`the stream ended after ${frames.length} frames`);
    frames.push(value);
    if (isLast(value)) return frames;
  }
}

export const types = (entries: Entry[]): string[] => entries.map((entry) => entry.type);

async function* readFrames(response: Response, comments: string[], signal: AbortSignal): AsyncGenerator<Frame> {
  const received: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => received.push(event), onComment: (comment) => comments.push(comment) });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { id, event, data } of received.splice(0)) yield { id, event, data: JSON.parse(data) };
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
