// What a native route says of a body that it does not take: in one sentence, and nothing is stored.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as openSocket } from 'node:net';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

test('a body that is not what it should be is 422 with a sentence, and stores nothing', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const path = `/v1/sessions/${id}/messages`;
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const bodies: unknown[] = [
    '{',
    '{"text":"a"',
    'null',
    '[]',
    '"text"',
    '7',
    '',
    '{"text":}',
    "{'text':'a'}",
    '\u0000',
    {},
    { text: 7 },
    { text: null },
    { text: ['a'] },
    { text: {} },
    { text: 'a', stream: 'yes' },
    { text: 'a', stream: 1 },
    { text: 'a', thinking: 'no' },
    { text: 'a', agent: 7 },
    { text: 'a', agent: '' },
    { text: 'a', participant_type: 'cat' },
    { text: 'a', participant_name: 7 },
    { text: 'a', participant_name: '' },
    { text: 'a', participant_name: 'x'.repeat(10_000) },
    '{"text":"a\\u0000b"}',
    '{"text":"\\ud800"}',
    '{"text":"\\udc00 x"}',
    '{"text":"a","participant_name":"\\u0000"}',
    '{"text":"a","__proto__":{"x":1}}',
    '{"text":"a","more":{"__proto__":1}}',
    `{"text":"a","more":${deep}}`,
    deep,
  ];
  for (const body of bodies) {
    const answer = await tenant.post(path, body);
    assert.equal(answer.status, 422, `${JSON.stringify(body).slice(0, 80)}: ${answer.text}`);
    assert.deepEqual(Object.keys(answer.body), ['detail']);
    assert.equal(typeof answer.body.detail, 'string');
  }
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.deepEqual(transcript.body.messages, []);
});

test('a long key above many values is read in a moment', async () => {
  const tenant = await createTenant(url);
  const path = `/v1/sessions/${await tenant.session()}/messages`;
  const began = performance.now();
  const answer = await tenant.post(path, { ['k'.repeat(300_000)]: new Array(30_000).fill('') });
  assert.equal(answer.status, 422);
  assert.ok(performance.now() - began < 2_000);
});

test('a body that is not UTF-8 is refused, not mended', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const body = Buffer.concat([Buffer.from('{"text":"caf'), Buffer.from([0xe9]), Buffer.from('"}')]);
  const headers = { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${url}/v1/sessions/${id}/messages`, { method: 'POST', headers, body });
  assert.deepEqual([answer.status, await answer.json()], [422, { detail: 'The body is not valid UTF-8.' }]);
});

test('a refused value is answered with the ones that are taken', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const said = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'a', participant_type: 'cat' });
  assert.deepEqual([said.status, said.body], [422, { detail: 'participant_type: must be one of human, ai' }]);
});

test('metadata that cannot be stored or would set a prototype is 422', async () => {
  const tenant = await createTenant(url);
  for (const metadata of [
    '{"a":"\\u0000"}',
    '{"\\u0000":1}',
    '{"a":"\\ud800"}',
    '{"__proto__":{"admin":true}}',
    '{"a":{"b":{"__proto__":1}}}',
    '{"a":[1e400]}',
  ])
    assert.equal((await tenant.post('/v1/sessions', `{"metadata":${metadata}}`)).status, 422, metadata);
  const kept = {
    constructor: 'c',
    prototype: { a: 1 },
    toString: 't',
    hasOwnProperty: 1,
    '': 'empty',
    'a.b': [[]],
    emoji: '🙂',
    big: 1e300,
  };
  const made = await tenant.post('/v1/sessions', { metadata: kept });
  assert.equal(made.status, 200, made.text);
  assert.deepEqual((await tenant.get(`/v1/sessions/${made.body.id}`)).body.metadata, kept);
});

test('unknown keys of a body are ignored', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session({ surprise: true });
  assert.equal((await tenant.say(id, '/say fine', { constructor: 1, surprise: { a: [] } })).text, 'fine');
});

test('a body of more than 1 MiB is 413, and another content type is 415', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const path = `/v1/sessions/${id}/messages`;
  const fits = '{"text":"/say fits"}'.padEnd(1024 * 1024);
  assert.equal((await tenant.post(path, fits)).body.text, 'fits');
  const large = await tenant.post(path, `${fits} `);
  assert.equal(large.status, 413);
  assert.equal(typeof large.body.detail, 'string');
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/xml', 'json']) {
    const answer = await tenant.post(path, '{"text":"hi"}', { 'content-type': type });
    assert.equal(answer.status, 415, type);
    assert.equal(typeof answer.body.detail, 'string');
  }
  const charset = await tenant.post(path, '{"text":"/say ok"}', { 'content-type': 'application/json; charset=utf-8' });
  assert.equal(charset.status, 200);
});

test('no body is none, of whatever type it is said to be', async () => {
  const tenant = await createTenant(url);
  for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/plain']) {
    const made = await tenant.post('/v1/sessions', '', { 'content-type': type });
    assert.equal(made.status, 200, `${type}: ${made.text}`);
    const stopped = await tenant.delete(`${tenant.agentPath}/v1/sessions/${made.body.id}`, { 'content-type': type });
    assert.equal(stopped.status, 204, `${type}: ${stopped.text}`);
  }
});

test('a sender that writes all of a body before it reads gets its 413, and can go on with the connection', async () => {
  const tenant = await createTenant(url);
  const head = (method: string, length: number) =>
    `${method} /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const socket = openSocket(Number(new URL(url).port), '127.0.0.1');
  for (let megabyte = 0; megabyte < 16; megabyte += 1) {
    const piece = 'x'.repeat(1024 * 1024);
    if (!socket.write(megabyte === 0 ? head('POST', 16 * 1024 * 1024) + piece : piece)) await once(socket, 'drain');
  }
  socket.write(`${head('POST', 2)}{}`);
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) {
    text += chunk;
    if (/HTTP\/1.1 200 OK[\s\S]*\}$/.test(text)) break;
  }
  assert.match(
    text,
    /^HTTP\/1.1 413 Payload Too Large\r\n[\s\S]*\{"detail":"The body is too large for this route, which takes at most 1048576 bytes\."\}HTTP\/1.1 200 OK\r\n/,
  );
});
