// verifyWebhook() takes what the server's own scheme signs, and nothing else.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import Stripe from 'stripe';
import { SignatureError, verifyWebhook } from '../../../client/src/index.ts';

const secret = 'whsec_svc_0123456789';
const payload = JSON.stringify({ id: 'evt', type: 'turn.completed', data: { text: 'Grüße 👋' } });
const now = Math.floor(Date.now() / 1000);

function sign(timestamp: number, body = payload, key = secret): string {
  return createHmac('sha256', key).update(`${timestamp}.${body}`).digest('hex');
}

test('a good signature gives the event, from text and from bytes', async () => {
  const header = `t=${now},v1=${sign(now)}`;
  assert.equal((await verifyWebhook(payload, header, secret)).type, 'turn.completed');
  assert.deepEqual((await verifyWebhook(new TextEncoder().encode(payload), header, secret)).data, { text: 'Grüße 👋' });
});

test('one of two signatures is enough, as after a rotation', async () => {
  const header = `t=${now},v1=${sign(now, payload, 'whsec_svc_new')},v1=${sign(now)}`;
  assert.equal((await verifyWebhook(payload, header, secret)).id, 'evt');
});

test("Stripe's own library makes the same signature", async () => {
  const header = new Stripe('sk_test_unused').webhooks.generateTestHeaderString({ payload, secret, timestamp: now });
  assert.equal((await verifyWebhook(payload, header, secret)).id, 'evt');
});

const refused: [string, string | undefined, string?][] = [
  ['no header', undefined],
  ['an empty header', ''],
  ['words in place of a header', 'signature'],
  ['no timestamp', `v1=${sign(now)}`],
  ['a timestamp that is no number', `t=soon,v1=${sign(now)}`],
  ['a signature that is too short', `t=${now},v1=abcd`],
  ['another timestamp than the one that was signed', `t=${now - 1},v1=${sign(now)}`],
  ['an old delivery', `t=${now - 301},v1=${sign(now - 301)}`],
  ['one from the future', `t=${now + 400},v1=${sign(now + 400)}`],
  ['another secret', `t=${now},v1=${sign(now, payload, 'whsec_svc_other')}`],
  ['another body', `t=${now},v1=${sign(now)}`, `${payload} `],
];

for (const [name, header, body = payload] of refused) {
  test(`refused: ${name}`, () => assert.rejects(verifyWebhook(body, header, secret), SignatureError));
}

test('a missing secret and a body that was parsed are named, not taken for a forgery', async () => {
  const header = [`t=${now},v1=${sign(now)}`];
  assert.equal((await verifyWebhook(payload, header, secret)).id, 'evt', 'as the types of node:http give it');
  const parsed = JSON.parse(payload);
  await assert.rejects(verifyWebhook(parsed, header, secret), { name: 'TypeError', message: /not what a JSON parser made of it/ });
  for (const missing of [undefined, ''])
    await assert.rejects(verifyWebhook(payload, header, missing), { name: 'TypeError', message: /secret .* is missing/ });
});

test('the tolerance is the caller’s', async () => {
  const header = `t=${now - 900},v1=${sign(now - 900)}`;
  assert.equal((await verifyWebhook(payload, header, secret, 1_000)).id, 'evt');
});
