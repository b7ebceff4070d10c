// The files of an organization together.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent, createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { ManagedClient, mintToken } from '../../support/managed.ts';

const mebibyte = 1024 * 1024;
const app = await startApp({ after }, { settings: { PARLEY_MAX_FILES_MIB: '1' } });
const { db } = app.context.database;

/** An agent of an organization of its own. */
async function start(): Promise<{ client: ManagedClient; key: string; slug: string }> {
  const { key, slug } = await createOrganization(app);
  await createAgent(app, key, 'helper');
  return { client: new ManagedClient(app, key, `${slug}/helper`), key, slug };
}

const upload = (client: ManagedClient, id: string, name: string, bytes: number) =>
  client.request('POST', `/sessions/${id}/files`, { name, content_base64: Buffer.alloc(bytes).toString('base64') });

/** What is counted, and what there is. */
async function counted(slug: string): Promise<{ counted: number; stored: number }> {
  const { rows } = await sql<{ counted: number; stored: number }>`
    select file_bytes::float8 as counted, (select coalesce(sum(size), 0)::float8 from workspace_files f where f.org_id = b.org_id) as stored
    from budgets b join organizations o on o.id = b.org_id where o.slug = ${slug}`.execute(db);
  return rows[0] ?? assert.fail();
}

async function run(client: ManagedClient, id: string, text: string) {
  const { events } = await client.state(id);
  await client.say(id, text);
  const entries = await client.untilIdle(id, events.at(-1)?.seq);
  return entries.find((entry) => entry.type === 'agent.tool_result');
}

test('an upload beyond the limit of the organization is 413, whatever session it is for, and changes nothing', async () => {
  const { client, slug } = await start();
  const [first, second] = [await client.create(), await client.create()];
  assert.equal((await upload(client, first, 'a', mebibyte - 10)).status, 200);
  const refused = await upload(client, second, 'b', 11);
  assert.deepEqual([refused.status, refused.body], [413, { detail: 'The files of this organization may have 1048576 bytes together' }]);
  assert.deepEqual(await counted(slug), { counted: mebibyte - 10, stored: mebibyte - 10 });
  assert.equal((await upload(client, second, 'b', 10)).status, 200);
  assert.equal((await upload(client, second, 'empty', 0)).status, 200);
  assert.equal((await upload(client, second, 'c', 1)).status, 413);
  // Another organization has a limit of its own.
  const other = await start();
  assert.equal((await upload(other.client, await other.client.create(), 'a', mebibyte)).status, 200);
});

test('a file may be replaced by one that is not larger, also in a full organization', async () => {
  const { client, slug } = await start();
  const id = await client.create();
  assert.equal((await upload(client, id, 'a', mebibyte)).status, 200);
  assert.equal((await upload(client, id, 'a', mebibyte)).status, 200);
  assert.equal((await upload(client, id, 'a', mebibyte - 100)).status, 200);
  assert.deepEqual(await counted(slug), { counted: mebibyte - 100, stored: mebibyte - 100 });
  assert.equal((await upload(client, id, 'b', 101)).status, 413);
  assert.equal((await upload(client, id, 'b', 100)).status, 200);
});

test('a tool whose files do not fit changes none of them and says so, and the turn goes on; deleting makes room', async () => {
  const { client, slug } = await start();
  const id = await client.create({ permission_mode: 'autonomous' });
  assert.equal((await upload(client, id, 'a', mebibyte - 10)).status, 200);
  const refused = await run(client, id, '/tool bash {"command":"echo 12345 > one; echo 12345 > two"}');
  const output = 'No file was changed: the files of this organization may have 1048576 bytes together';
  assert.deepEqual([refused?.output, refused?.is_error], [output, true]);
  assert.deepEqual(await counted(slug), { counted: mebibyte - 10, stored: mebibyte - 10 });
  const fits = await run(client, id, '/tool files {"operation":"write","path":"one","content":"1234567890"}');
  assert.equal(fits?.is_error, false);
  assert.deepEqual(await counted(slug), { counted: mebibyte, stored: mebibyte });
  // Not more than before: one file shrinks by what another grows.
  assert.equal((await run(client, id, '/tool bash {"command":"echo 12 > one; echo 12345 > two"}'))?.is_error, false);
  assert.deepEqual(await counted(slug), { counted: mebibyte - 1, stored: mebibyte - 1 });
  assert.equal((await run(client, id, '/tool bash {"command":"rm uploads/a"}'))?.is_error, false);
  assert.deepEqual(await counted(slug), { counted: 9, stored: 9 });
  assert.equal((await upload(client, id, 'b', mebibyte - 9)).status, 200);
});

test('uploads and tools of many sessions at once fill the organization exactly', async () => {
  const { client, slug } = await start();
  const ids = await Promise.all(Array.from({ length: 12 }, () => client.create({ permission_mode: 'autonomous' })));
  const size = mebibyte / 8;
  const write = `/tool files {"operation":"write","path":"written","content":"${'x'.repeat(size)}"}`;
  const done = await Promise.all(
    ids.map(async (id, index) =>
      index % 2 === 0 ? (await upload(client, id, 'a', size)).status === 200 : (await run(client, id, write))?.is_error === false,
    ),
  );
  assert.equal(done.filter(Boolean).length, 8);
  assert.deepEqual(await counted(slug), { counted: mebibyte, stored: mebibyte });
});

test('turns that write the same file of a workspace they share are counted once', async () => {
  const { client, key, slug } = await start();
  const release = { instance: { scope: 'shared' }, activate: true };
  assert.equal((await app.call('POST', '/api/agents/helper/releases', { key, body: release })).status, 201);
  const ids = await Promise.all(Array.from({ length: 8 }, () => client.create({ permission_mode: 'autonomous' })));
  await Promise.all(
    ids.map((id, index) => run(client, id, `/tool files {"operation":"write","path":"same","content":"${'x'.repeat(100 + index)}"}`)),
  );
  const { counted: bytes, stored } = await counted(slug);
  assert.equal(bytes, stored);
  assert.ok(stored >= 100 && stored < 108);
});

test('a session that is deleted gives back the bytes of its files', async () => {
  const { client, slug, key } = await start();
  const path = `/${slug}/helper/v1/responses`;
  const answer = await app.call('POST', path, { key, body: { input: '/say hi' } });
  const id = String(answer.headers['x-svc-session']);
  assert.equal((await upload(client, id, 'a', 1_000)).status, 200);
  assert.deepEqual(await counted(slug), { counted: 1_000, stored: 1_000 });
  assert.equal((await app.call('DELETE', `${path}/${answer.body.id}`, { key })).status, 200);
  assert.deepEqual(await counted(slug), { counted: 0, stored: 0 });
});

test('a browser is held to the limit of its organization', async () => {
  const client = new ManagedClient(app, await mintToken(app));
  const id = await client.create();
  assert.equal((await upload(client, id, 'a', mebibyte + 1)).status, 413);
  assert.equal((await upload(client, id, 'a', 1)).status, 200);
});
