import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { ManagedClient, mintToken } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);
const base64 = (text: string) => Buffer.from(text).toString('base64');

test('an upload is at uploads/<name> for bash and files, and is listed in the next user.message only', async () => {
  const id = await client.create({ permission_mode: 'autonomous' });
  const upload = await client.request('POST', `/sessions/${id}/files`, { name: 'notes.txt', content_base64: base64('remember the milk') });
  assert.equal(upload.status, 200);
  assert.deepEqual(upload.body, { accepted: true, path: 'uploads/notes.txt' });
  await client.request('POST', `/sessions/${id}/files`, { name: 'empty', content_base64: '' });
  await client.say(id, '/tool bash {"command":"cat uploads/notes.txt"}\n/tool files {"operation":"read","path":"uploads/notes.txt"}');
  const entries = await client.untilIdle(id);
  assert.deepEqual(entries[0]?.files, ['uploads/notes.txt', 'uploads/empty']);
  const results = entries.filter((entry) => entry.type === 'agent.tool_result');
  assert.equal(results[0]?.output, 'remember the milk');
  assert.match(String(results[1]?.output), /remember the milk/);
  await client.say(id, '/say thanks');
  assert.equal((await client.untilIdle(id, entries.at(-1)?.seq))[0]?.files, undefined);
  await client.request('POST', `/sessions/${id}/files`, { name: 'more.txt', content_base64: base64('more') });
  const { messages } = (await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say seen' })).body;
  assert.deepEqual(messages[0].parts, [
    { type: 'text', text: '/say seen' },
    { type: 'file', path: 'uploads/more.txt' },
  ]);
});

test('an upload belongs to the next message that begins its turn, also to one that waits already', async () => {
  const id = await client.create();
  await client.say(id, '/tool bash {"command":"ls"}');
  const pause = (await client.untilIdle(id)).at(-1);
  await client.say(id, '/say second');
  await client.request('POST', `/sessions/${id}/files`, { name: 'late.txt', content_base64: base64('late') });
  await client.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result: 'deny' });
  const end = (await client.untilIdle(id, pause?.seq)).at(-1);
  const [second] = await client.untilIdle(id, end?.seq);
  assert.deepEqual([second?.text, second?.files], ['/say second', ['uploads/late.txt']]);
});

test('an upload sent again under its Idempotency-Key is not staged again', async () => {
  const id = await client.create();
  const upload = (text: string) =>
    client.request('POST', `/sessions/${id}/files`, { name: 'a.txt', content_base64: base64(text) }, { 'idempotency-key': 'upload-1' });
  assert.equal((await upload('one')).headers['idempotent-replayed'], undefined);
  await client.say(id, '/say got it');
  const entries = await client.untilIdle(id);
  assert.deepEqual(entries[0]?.files, ['uploads/a.txt']);
  const again = await upload('one');
  assert.deepEqual(
    [again.status, again.headers['idempotent-replayed'], again.body],
    [200, 'true', { accepted: true, path: 'uploads/a.txt' }],
  );
  const other = await upload('two');
  assert.equal(other.status, 422);
  assert.equal(other.body.detail.error, 'idempotency_key_reused');
  await client.say(id, '/say nothing new');
  assert.equal((await client.untilIdle(id, entries.at(-1)?.seq))[0]?.files, undefined);
});

test('an upload that is named like a directory, or has a file where its directory should be, is 409 and stages nothing', async () => {
  for (const [taken, says] of [
    ['uploads/report/page.txt', 'uploads/report is a directory in the workspace'],
    ['uploads', 'uploads is a file in the workspace, not a directory'],
  ]) {
    const id = await client.create({ permission_mode: 'autonomous' });
    const files = (input: object) => `/tool files ${JSON.stringify(input)}`;
    await client.say(id, files({ operation: 'write', path: taken, content: 'first' }));
    const written = (await client.untilIdle(id)).at(-1);
    const upload = await client.request('POST', `/sessions/${id}/files`, { name: 'report', content_base64: base64('second') });
    assert.deepEqual([upload.status, upload.body], [409, { detail: says }]);
    await client.say(id, files({ operation: 'list' }));
    const [message, ...rest] = await client.untilIdle(id, written?.seq);
    const listed = rest.find((entry) => entry.type === 'agent.tool_result')?.output;
    assert.deepEqual([message?.files, String(listed).split(' (5 bytes')[0]], [undefined, taken]);
  }
});

test('only the basename of a name is used', async () => {
  const id = await client.create();
  for (const [name, path] of [
    ['../../etc/passwd', 'uploads/passwd'],
    ['C:\\Users\\me\\report.pdf', 'uploads/report.pdf'],
    ['a/b/c.txt', 'uploads/c.txt'],
    ['Übersicht 2026.xlsx', 'uploads/Übersicht 2026.xlsx'],
    ['.hidden', 'uploads/.hidden'],
    ['..b', 'uploads/..b'],
    ['日本語.txt', 'uploads/日本語.txt'],
    ['Cafe\u0301.txt', 'uploads/Caf\u00e9.txt'],
  ]) {
    const answer = await client.request('POST', `/sessions/${id}/files`, { name, content_base64: 'aGk=' });
    assert.equal(answer.status, 200, `${name}: ${answer.text}`);
    assert.equal(answer.body.path, path);
  }
});

test('a name without a usable basename is 400', async () => {
  const id = await client.create();
  const names = [
    '',
    ' ',
    '.',
    '..',
    '/',
    'a/',
    '../',
    'a\\',
    'a/..',
    `${'x'.repeat(300)}.txt`,
    'é'.repeat(150),
    'a\u0000b',
    'a\u202eb.exe',
    'a\nb',
  ];
  const lookAlikes = ['..\u2215etc', 'a\u2044b', 'a\uff0fb', 'a\uff3cb', '\u2024\u2024', '\uff0e\uff0e', '\u2025'];
  for (const name of [...names, ...lookAlikes]) {
    const answer = await client.request('POST', `/sessions/${id}/files`, { name, content_base64: 'aGk=' });
    assert.equal(answer.status, 400, `${JSON.stringify(name)} gave ${answer.status} ${answer.text}`);
  }
});

test('what is no Base64, or no string, is 400', async () => {
  const id = await client.create();
  for (const content of ['a', 'aGk', 'aGk=\n', 'a-k_', '====', 'aG=k', 'data:text/plain;base64,aGk=', 'ä===', 7, null, undefined]) {
    const answer = await client.request('POST', `/sessions/${id}/files`, { name: 'a.txt', content_base64: content });
    assert.equal(answer.status, 400, `${content} gave ${answer.status}`);
  }
  assert.equal((await client.request('POST', `/sessions/${id}/files`, { content_base64: 'aGk=' })).status, 400);
  assert.equal((await client.request('POST', `/sessions/${id}/files`)).status, 400);
});

test('10 MiB are taken, one byte more is 413, and so is a body over 14 MiB', async () => {
  const id = await client.create();
  const most = 10 * 1024 * 1024;
  const upload = (bytes: number) =>
    client.request('POST', `/sessions/${id}/files`, { name: 'big.bin', content_base64: Buffer.alloc(bytes).toString('base64') });
  assert.equal((await upload(most)).status, 200);
  const over = await upload(most + 1);
  assert.equal(over.status, 413);
  assert.equal(typeof over.body.detail, 'string');
  const padded = (bytes: number) =>
    client.request('POST', `/sessions/${id}/files`, { name: 'small.txt', content_base64: base64('x'), more: 'x'.repeat(bytes) });
  assert.equal((await padded(14 * 1024 * 1024 - 1_024)).status, 200);
  assert.equal((await padded(14 * 1024 * 1024)).status, 413);
  const event = await client.post(id, { type: 'user.message', text: 'x'.repeat(1_100_000) });
  assert.equal(event.status, 413, 'elsewhere 1 MiB is the limit');
});

test('files of one end user are not those of another, nor of a visitor who claims the same id', async () => {
  const alice = client.as(await mintToken(app, { end_user_id: 'alice' }));
  const bob = client.as(await mintToken(app, { end_user_id: 'bob' }));
  const visitor = client.as(await mintToken(app));
  const hers = await alice.create();
  await alice.request('POST', `/sessions/${hers}/files`, { name: 'secret.txt', content_base64: base64('of alice') });
  const listing = '/tool files {"operation":"list"}';
  const filesSeenBy = async (who: ManagedClient, body?: unknown) => {
    const id = await who.create(body);
    await who.say(id, listing);
    return String((await who.untilIdle(id)).find((entry) => entry.type === 'agent.tool_result')?.output);
  };
  assert.match(await filesSeenBy(alice), /secret\.txt/, 'her next session shares her workspace');
  assert.doesNotMatch(await filesSeenBy(bob), /secret/);
  assert.doesNotMatch(await filesSeenBy(visitor, { metadata: { end_user_id: 'alice' } }), /secret/);
  assert.doesNotMatch(await filesSeenBy(visitor, { metadata: { agent_instance_id: 'end_user:alice' } }), /secret/);
  assert.equal((await bob.request('POST', `/sessions/${hers}/files`, { name: 'x', content_base64: '' })).status, 404);
});
