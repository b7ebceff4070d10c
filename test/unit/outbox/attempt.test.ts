import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextOfOrg, createSecretBox } from '../../../src/accounts/secret-box.ts';
import { type AttemptParts, attemptDelivery } from '../../../src/outbox/attempt.ts';
import type { ClaimedDelivery } from '../../../src/outbox/queue.ts';

const secrets = createSecretBox(Buffer.alloc(32, 1));
const delivery: ClaimedDelivery = {
  id: '6f6f6d2c-5b1e-4f0c-9a52-0d7d1a8f2c11',
  lane: 'endpoint 1',
  org_id: 1,
  type: 'turn.completed',
  body: '{}',
  attempt_count: 0,
  manual: false,
  endpoint_id: 1,
  url: 'https://example.com/',
  enabled: true,
  secret_ciphertext: secrets.seal('whsec_svc_1', contextOfOrg(1)),
  previous_secret_ciphertext: null,
  previous_secret_until: null,
};

function attempt(fetch: AttemptParts['fetch'], sent = delivery, now = new Date()) {
  const gatewayFetch = async () => assert.fail('this is for gateways');
  return attemptDelivery(sent, now, { fetch, gatewayFetch, secrets, peers: {} }, new AbortController().signal);
}

test('an attempt may take 15 s', async (t) => {
  const timeout = t.mock.method(AbortSignal, 'timeout', () => AbortSignal.abort(new Error('too late')));
  const outcome = await attempt(async (_url, init) => {
    init?.signal?.throwIfAborted();
    return new Response();
  });
  assert.deepEqual([outcome.ok, outcome.error], [false, 'No answer within 15 s.']);
  assert.deepEqual(
    timeout.mock.calls.map((call) => call.arguments),
    [[15_000]],
  );
});

test('the secret before the last rotation signs until its time, and not a moment longer', async () => {
  const until = new Date('2026-03-02T00:00:00Z');
  const rotated = { ...delivery, previous_secret_ciphertext: secrets.seal('whsec_svc_0', contextOfOrg(1)), previous_secret_until: until };
  const signaturesAt = async (now: Date) => {
    let signature: string | null = null;
    const outcome = await attempt(
      async (_url, init) => {
        signature = new Headers(init?.headers).get('svc-signature');
        return new Response();
      },
      rotated,
      now,
    );
    assert.equal(outcome.ok, true);
    return String(signature).match(/v1=/g)?.length;
  };
  assert.equal(await signaturesAt(new Date(until.getTime() - 1)), 2);
  assert.equal(await signaturesAt(until), 1);
});

test('of an answer without an end 64 KiB are read, and then the connection is given up', async () => {
  const piece = new Uint8Array(16 * 1_024).fill(120);
  let pieces = 0;
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>(
    {
      pull(target) {
        pieces += 1;
        target.enqueue(piece);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const outcome = await attempt(async () => new Response(endless));
  assert.deepEqual([outcome.ok, outcome.excerpt, pieces, cancelled], [true, 'x'.repeat(1_024), 4, true]);
});

test('any 2xx is a success, and nothing else is', async () => {
  const isOk = async (status: number) => (await attempt(async () => new Response(null, { status }))).ok;
  for (const status of [200, 201, 202, 204, 226, 299]) assert.equal(await isOk(status), true, String(status));
  for (const status of [300, 304, 400, 404, 410, 500, 599]) assert.equal(await isOk(status), false, String(status));
});

test('what a receiver asks for is heard with a 429 and a 503 only; what cannot be stored of its answer is left out', async () => {
  const answered = (status: number, body = '') =>
    attempt(async () => new Response(body, { status, headers: { 'retry-after': '7' } }), delivery);
  const heard = async (status: number) => {
    const { error, retryAfter } = await answered(status);
    return [error, retryAfter];
  };
  for (const status of [429, 503]) assert.deepEqual(await heard(status), [null, '7']);
  for (const status of [400, 500]) assert.deepEqual(await heard(status), [null, null]);
  for (const status of [300, 399]) assert.deepEqual(await heard(status), ['Redirects are not followed.', null]);
  assert.equal((await answered(500, 'a\0b')).excerpt, 'a\uFFFDb');
  const failure = async (error: Error) => (await attempt(() => Promise.reject(error))).error;
  assert.equal(await failure(new Error('no\0thing')), 'nothing');
  assert.equal(await failure(new Error('fetch failed', { cause: new Error('ECONNRESET') })), 'fetch failed: ECONNRESET');
  assert.equal(await failure(new Error(`${'x'.repeat(499)}😀`)), `${'x'.repeat(499)}\uFFFD`);
  assert.equal(await failure(new Error('')), 'The connection failed');
});

test('the key of a gateway goes to that gateway and to no other', async () => {
  const peers = { 'https://peer.example': 'svc_live_peer' };
  const keyAt = async (url: string) => {
    let key: string | null | undefined;
    const gatewayFetch: AttemptParts['fetch'] = async (_url, init) => {
      key = new Headers(init?.headers).get('authorization');
      return new Response();
    };
    const parts = { fetch: async () => assert.fail('this is for webhooks'), gatewayFetch, secrets, peers };
    await attemptDelivery({ ...delivery, endpoint_id: null, url }, new Date(), parts, new AbortController().signal);
    return key;
  };
  assert.equal(await keyAt('https://peer.example/v1/gateway/deliveries'), 'Bearer svc_live_peer');
  for (const other of ['https://other.example', 'https://peer.example.org', 'https://peer.example/guest', 'http://peer.example'])
    assert.equal(await keyAt(`${other}/v1/gateway/deliveries`), null, other);
});
