// Runs clients of every kind at once while a test causes faults. They record what the server acknowledged; afterwards `check` compares that
// with the log, the budget, the tools and the webhooks.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KillPoints } from './kill-points.ts';
import { type Promised, PromisedSessions, pauseMs } from './promised-sessions.ts';
import type { Receiver } from './webhook-receiver.ts';
import { connect, type Wire, type WireAnswer } from './wire.ts';

export interface MixedLoad {
  /** How many requests were answered with success so far. */
  answered(): number;
  /** Answers that are wrong even during a fault: anything but success, or 429 or 503 with Retry-After. */
  unexpected: string[];
  /** How often each error status was received. */
  refused: Map<number, number>;
  stop(): Promise<void>;
  /** Stops without waiting, for a test that has failed. */
  abandon(): void;
  /** Asserts that everything acknowledged is in the log, and that budget, tools and webhooks agree with it. Call it after `stop`. */
  check(): Promise<void>;
}

interface Parts {
  /** The server for the next request; where there are several, they take turns. */
  wire(): Wire;
  points: KillPoints;
  receiver: Receiver;
}

const patienceMs = 45_000;
const managed = '/demo/assistant/v1/managed-agents/sessions';

/** Needs PARLEY_ALLOW_PRIVATE_UPSTREAMS, PARLEY_WEBHOOK_ALLOW_PRIVATE and no rate limit. */
export async function startMixedLoad({ wire, points, receiver }: Parts): Promise<MixedLoad> {
  await prepare(wire(), points, receiver);
  const sessions = new PromisedSessions(wire);
  const unexpected: string[] = [];
  const refused = new Map<number, number>();
  const markers: string[] = [];
  let answered = 0;
  let isOver = false;
  let isAbandoned = false;
  let deadline = Number.POSITIVE_INFINITY;

  /** Undefined if the connection broke or the server refused: after a break it is unknown whether the request was carried out. */
  async function ask(work: (one: Wire) => Promise<WireAnswer>): Promise<WireAnswer | undefined> {
    const answer = await Promise.race([work(wire()).catch(() => undefined), sleep(patienceMs, 'never' as const, { ref: false })]);
    if (answer === 'never') unexpected.push('a request was not answered');
    if (answer === undefined || answer === 'never') {
      await sleep(pauseMs);
      return undefined;
    }
    if (answer.status < 300) {
      answered += 1;
      return answer;
    }
    refused.set(answer.status, (refused.get(answer.status) ?? 0) + 1);
    const isLater = (answer.status === 503 || answer.status === 429) && /^[1-9]\d*$/.test(answer.headers.get('retry-after') ?? '');
    if (!isLater) unexpected.push(`${answer.status} ${answer.text}`);
    await sleep(pauseMs);
    return undefined;
  }

  const repeatedly = async (work: (number: number) => Promise<void>) => {
    for (let number = 1; !isOver; number += 1) await work(number);
  };
  /** Repeats the request until it is answered. That may take long while the server is killed again and again, but not after `stop`. */
  const persistently = async (work: (one: Wire) => Promise<WireAnswer>): Promise<WireAnswer | undefined> => {
    while (Date.now() < deadline && !isAbandoned) {
      const answer = await ask(work);
      if (answer !== undefined) return answer;
    }
    unexpected.push('a repeated request was never answered');
    return undefined;
  };
  /** Creates a session and follows its log from now on. */
  const open = async (id: string): Promise<Promised> => {
    await persistently((one) => one.post('/v1/sessions', { session_id: id }));
    const session = sessions.add(id);
    session.follow();
    return session;
  };

  async function unary(): Promise<void> {
    const session = await open('load-unary');
    await repeatedly(async (number) => {
      const text = `/delay 2\n/say unary ${number} was said`;
      const answer = await ask((one) => one.post('/v1/sessions/load-unary/messages', { text }));
      if (answer !== undefined) session.promise(text, answer.body.text);
    });
  }

  /** With an idempotency key, each message must be in the log exactly once, however often it was sent. */
  async function unaryWithKey(): Promise<void> {
    const session = await open('load-keyed');
    await repeatedly(async (number) => {
      const text = `/delay 2\n/say keyed ${number} was said`;
      const headers = { 'idempotency-key': `keyed-${number}` };
      const answer = await persistently((one) => one.post('/v1/sessions/load-keyed/messages', { text }, headers));
      if (answer !== undefined) session.promise(text, answer.body.text);
    });
  }

  async function streamed(): Promise<void> {
    const session = await open('load-streamed');
    await repeatedly(async (number) => {
      const text = `/delay 2\n/say streamed ${number} was said`;
      const response = await startStream(wire(), '/v1/sessions/load-streamed/messages', { text, stream: true });
      if (response === undefined) return sleep(pauseMs);
      if (response.status !== 200) return void (await ask(async () => refusalOf(response)));
      answered += 1;
      session.promise(text);
      // The connection may break; but a stream that the server closes itself must have said how the turn ended.
      const frames = await response.text().catch(() => undefined);
      if (frames?.includes('event: done')) session.promise(text, `streamed ${number} was said`);
      else if (frames !== undefined && !frames.includes('event: error'))
        unexpected.push(`a stream ended without a word: ${frames.slice(-200)}`);
    });
  }

  async function events(): Promise<void> {
    const session = await open('load-events');
    await repeatedly(async (number) => {
      const text = `/say event ${number} was taken`;
      const event = { type: 'user.message', text };
      if ((await ask((one) => one.post(`${managed}/load-events/events`, event))) !== undefined) session.promise(text);
      await sleep(30);
    });
  }

  async function chat(): Promise<void> {
    const session = await open('load-chat');
    await repeatedly(async (number) => {
      const content = `/say chat ${number} was said`;
      const body = { model: 'any', messages: [{ role: 'user', content }] };
      const answer = await ask((one) => one.post('/demo/assistant/v1/chat/completions', body, { 'x-svc-session': session.id }));
      if (answer !== undefined) session.promise(content, answer.body.choices[0].message.content);
    });
  }

  /** Calls of a tool that needs an approval and must not run twice, each in a session of its own. */
  async function tools(): Promise<void> {
    await repeatedly(async (number) => {
      const id = `load-tool-${number}`;
      const marker = `m${process.pid}x${number}`;
      markers.push(marker);
      const path = `/demo/shop/v1/sessions`;
      await persistently((one) => one.post(path, { session_id: id, permission_mode: 'interactive' }));
      const session = sessions.add(id, 'shop');
      const text = `charge ${marker}`;
      const headers = { 'idempotency-key': id };
      const paused = await persistently((one) => one.post(`${path}/${id}/messages`, { text }, headers));
      session.promise(text);
      const requestId = paused?.body.pending_input?.request_id;
      if (requestId === undefined) return void unexpected.push(`a guarded tool did not ask: ${paused?.text}`);
      await persistently((one) => one.put(`${path}/${id}/inputs/${requestId}`, { decision: 'approve_once' }));
      session.wasApproved = true;
    });
  }

  async function creates(): Promise<void> {
    await repeatedly(async (number) => {
      const id = `load-created-${number}`;
      if ((await ask((one) => one.post('/v1/sessions', { session_id: id }))) !== undefined) sessions.add(id);
      await sleep(100);
    });
  }

  const running = [unary(), unaryWithKey(), streamed(), events(), chat(), tools(), creates()];
  return {
    answered: () => answered,
    unexpected,
    refused,
    async stop() {
      isOver = true;
      deadline = Date.now() + 60_000;
      await Promise.all(running);
    },
    abandon() {
      isOver = true;
      isAbandoned = true;
      sessions.abandon();
    },
    async check() {
      assert.deepEqual(unexpected, []);
      const ended = await sessions.check(points.runs);
      for (const marker of markers)
        assert.ok((points.runs.get(marker) ?? 0) <= 1, `the tool ran ${points.runs.get(marker)} times for ${marker}`);
      const { body } = await wire().get('/api/budget');
      assert.deepEqual([body.budget.reserved_tokens, body.budget.reserved_micros], [0, 0], 'a reservation is left');
      assert.equal(body.budget.tokens_used, ended.tokens, 'the budget counts what the log says was used');
      await receiver.until((received) => {
        const told = new Set(received.map((one) => one.body.data.turn_id ?? one.body.data.session_id));
        return ended.turns.every((id) => told.has(id)) && sessions.ids().every((id) => told.has(id));
      }, 'a webhook for every session and every turn');
    },
  };
}

async function prepare(wire: Wire, points: KillPoints, receiver: Receiver): Promise<void> {
  const made = async (path: string, body: unknown) => {
    const answer = await wire.post(path, body);
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };
  const budget = await wire.put('/api/budget', { total_tokens_cap: 1_000_000_000 });
  assert.equal(budget.status, 200, budget.text);
  await made('/api/webhook_endpoints', {
    name: 'Load',
    url: receiver.url,
    event_types: ['session.started', 'turn.completed', 'turn.failed'],
  });
  await made('/api/agents', { slug: 'shop', name: 'Shop' });
  await made('/api/agents/shop/releases', { ...points.release, activate: true });
  for (let state = ''; state !== 'materialized'; await sleep(20)) {
    state = (await wire.get('/api/agents/shop/releases/1')).body.release.state;
    assert.notEqual(state, 'failed');
  }
}

async function startStream(wire: Wire, path: string, body: unknown): Promise<Response | undefined> {
  const headers = { authorization: `Bearer ${wire.key}`, 'content-type': 'application/json' };
  return fetch(wire.url + path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(() => undefined);
}

async function refusalOf(response: Response): Promise<WireAnswer> {
  return { status: response.status, headers: response.headers, text: await response.text(), body: undefined };
}

export const mixedLoadSettings = {
  PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1',
  PARLEY_WEBHOOK_ALLOW_PRIVATE: '1',
  PARLEY_RATE_LIMIT_RPS: '0',
  PARLEY_LEASE_MS: '500',
  PARLEY_LOG_LEVEL: 'error',
};

export const wireOf = (server: { url: string; apiKey: string }): Wire => connect(server.url, server.apiKey);
