// What an organization has, managed from the terminal.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { sql } from 'kysely';
import { startApp } from '../support/app.ts';
import { commandLine, run } from '../support/command-line.ts';
import { until } from '../support/until.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

test('agents, releases, keys and organizations are managed from the terminal', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  const file = join(mkdtempSync(join(tmpdir(), 'parley-cli-')), 'release.json');
  t.after(() => rmSync(join(file, '..'), { recursive: true }));
  writeFileSync(file, JSON.stringify({ instructions: 'Be brief.', model: { provider: 'offline', name: 'demo' } }));
  const activated = await cli(['releases', 'create', 'assistant', file, '--activate']);
  assert.deepEqual(activated, { code: 0, stdout: 'Release 2 of assistant: materialized, active\n', stderr: '' });
  assert.match((await cli(['releases', 'rollback', 'assistant'])).stdout, /now runs release 1/);
  writeFileSync(file, JSON.stringify({ model: { provider: 'anthropic', name: 'claude-sonnet-4-5' } }));
  const failed = await cli(['releases', 'create', 'assistant', file, '--activate']);
  const unstored = 'no key for anthropic: store it with PUT /api/model_credentials/anthropic, or: parley credentials set anthropic';
  assert.deepEqual(failed, { code: 1, stdout: `Release 3 of assistant: failed (credentials: ${unstored})\n`, stderr: '' });
  for (let count = 1; count <= 50; count += 1) await app.request('POST', '/api/agents', { slug: `agent-${count}` });
  const listed = (await cli(['agents', 'list'])).stdout;
  assert.match(listed, /^assistant +Assistant +1 /m);
  assert.match(listed, /^agent-50 /m, 'a list is shown beyond its first page');
  assert.equal((await cli(['releases', 'activate', 'assistant', '3'])).code, 1);
  assert.match((await cli(['agents', 'list'])).stdout, /^assistant +Assistant +3 +failed +true$/m);
  const made = await cli(['--json', 'keys', 'create', 'reader', '--scopes', 'agents:read']);
  const { api_key: reader, secret } = JSON.parse(made.stdout);
  assert.match(secret, /^svc_live_/);
  await cli(['keys', 'revoke', String(reader.id)]);
  assert.match((await cli(['keys', 'list'])).stdout, /^\d+ +reader +svc_live_\S+ +- +\d{4}-\S+ +agents:read$/m, 'with when it was revoked');
  assert.match((await cli(['orgs', 'create', 'acme'])).stdout, /API key \(shown once\): svc_live_/);
  assert.match((await cli(['orgs', 'invite', 'acme'])).stdout, /^http:\/\/127\.0\.0\.1:\d+\/dashboard\/join\?token=inv_[\w-]{32}\n$/);
  const { port } = new URL(await app.listen());
  const server = { PORT: port, PARLEY_PUBLIC_URL: 'https://parley.example.com/', PARLEY_OPERATOR_KEY: app.operatorKey };
  assert.match((await run(server, ['orgs', 'invite', 'acme'])).stdout, /^https:\/\/parley\.example\.com\/dashboard\/join\?token=inv_/);
  assert.match((await cli(['credentials', 'set', 'openai'], 'sk-0123456789abcdef\n')).stdout, /Stored the credential for openai/);
  assert.match((await cli(['credentials', 'list'])).stdout, /openai +cdef/);
  const [, head = ''] = /^The chain is intact.* ([0-9a-f]{64})$/m.exec((await cli(['audit', 'verify'])).stdout) ?? [];
  assert.equal((await cli(['audit', 'verify', '--head', head])).code, 0);
  const cutOff = await cli(['audit', 'verify', '--head', 'f'.repeat(64)]);
  assert.deepEqual([cutOff.code, /^The chain was cut off/.test(cutOff.stdout)], [1, true]);
  const mistyped = await cli(['audit', 'verify', '--head', 'abc']);
  assert.equal(mistyped.stderr, 'parley: head: must be the 64 hexadecimal digits that an earlier verification gave\n');
  const exported = await cli(['audit', 'export', '--action', 'model_credential.stored']);
  assert.equal(exported.code, 0);
  assert.match(exported.stdout, /^created_at,action,[^\r]*\r\n[^\r]*,model_credential\.stored,[^\r]*,parley-cli,[^\r]*\r\n$/);
  await sql`insert into audit_events (org_id, created_at, action, subject_type, subject_id, metadata, previous_hash, hash)
    select 1, now(), 'agent.updated', 'agent', n, '{}', '', '' from generate_series(1, 501) n`.execute(app.context.database.db);
  const { data, next_cursor } = JSON.parse((await cli(['audit', 'export', '--json', '--action', 'agent.updated'])).stdout);
  assert.deepEqual([data.length, data[0].subject_id, data[500].subject_id, next_cursor], [501, '501', '1', null], 'as JSON, all pages');
});

test('whatever the API can change of an agent, a release and a webhook endpoint, the terminal can', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
  const cli = await commandLine(app);
  const done = async (...args: string[]) => {
    const { code, stdout, stderr } = await cli(args);
    assert.deepEqual([code, stderr], [0, ''], args.join(' '));
    return stdout;
  };
  await app.request('POST', '/api/agents', { slug: 'second' });
  await done('agents', 'update', 'second', '--name', 'The second', '--default');
  const { agent } = (await app.request('GET', '/api/agents/second')).body;
  assert.deepEqual([agent.name, agent.default], ['The second', true]);
  assert.match((await cli(['agents', 'update', 'second'])).stderr, /^parley: nothing to change: give --name, /);

  const config = JSON.parse(await done('releases', 'show', 'assistant', '1'));
  const create = async (body: object) => (await app.request('POST', '/api/agents/assistant/releases', body)).body.release;
  const first = (await app.request('GET', '/api/agents/assistant/releases/1')).body.release;
  const second = await create(config);
  assert.deepEqual([second.version, second.config], [2, first.config], 'what is shown makes the same release');
  const edited = await create({ ...config, instructions: 'Sing.' });
  assert.equal(edited.config.agents[0].instructions, 'Sing.', 'what is shown has the instructions once, where a change of them counts');
  const piped = await cli(['releases', 'create', 'assistant', '-'], '{"instructions":"Be brief."}');
  assert.deepEqual([piped.code, /^Release 4 of assistant: materialized/.test(piped.stdout)], [0, true], 'from standard input');
  assert.match((await cli(['releases', 'create', 'assistant', '-'], '{x')).stderr, /^parley: standard input is not JSON: /);

  await app.request('POST', '/demo/assistant/v1/chat/completions', { messages: [{ role: 'user', content: '/say hello' }] });
  assert.match(await done('usage', '--by', 'agent,model'), /^AGENT +MODEL +TURNS .*\nassistant +offline\/demo +1 +\d+ +\d+ +\d+\n$/);

  const receiver = await startReceiver(t);
  const { secret } = (await app.request('POST', '/api/webhook_endpoints', { name: 'Hook', url: receiver.url })).body;
  await done('webhooks', 'update', '1', '--name', 'Renamed', '--events', 'api_key.created');
  const { webhook_endpoint: endpoint } = (await app.request('GET', '/api/webhook_endpoints/1')).body;
  assert.deepEqual([endpoint.name, endpoint.url, endpoint.event_types], ['Renamed', receiver.url, ['api_key.created']]);
  assert.match(await done('webhooks', 'list'), /^1 +Renamed +http\S+ +true +0 +api_key\.created$/m);
  const [next] = /whsec_svc_\S+/.exec(await done('webhooks', 'rotate-secret', '1')) ?? [];
  assert.ok(next !== undefined && next !== secret);
  await app.request('POST', '/api/webhook_endpoints/1/disable');
  await app.request('POST', '/api/api_keys', { name: 'Missed', scopes: [] });
  // An event that nobody has looked at yet would simply be sent to the endpoint, once it is enabled.
  const { db } = app.context.database;
  await until(async () => (await sql`select 1 from webhook_events where not fanned_out`.execute(db)).rows.length === 0);
  await app.request('POST', '/api/webhook_endpoints/1/enable');
  const recovered = await done('webhooks', 'recover', '1', '--from', '2026-01-01');
  assert.equal(recovered, 'Endpoint 1: deliveries queued again: 1. A disabled endpoint gets them when it is enabled.\n');
  const [missed] = await receiver.until((received) => received.length === 1);
  assert.equal(missed?.body.data.name, 'Missed');
  receiver.answer = 500;
  assert.match(await done('webhooks', 'test', '1'), /^Endpoint 1: test event sent\. What became of it: parley webhooks deliveries 1\n$/);
  await receiver.until((received) => received.length === 2);
  await until(async () => /^\S+ +\S+ +failed +\S+ +1 +500$/m.test(await done('webhooks', 'deliveries', '1')));
  assert.match(await done('webhooks', 'deliveries', '1'), /^\S+ +api_key\.created +delivered +\S+ +1 +200$/m);
  await done('webhooks', 'update', '1', '--events', '');
  assert.match(await done('webhooks', 'list'), / all$/m);
  const { webhook_endpoint: ofAll } = (await app.request('GET', '/api/webhook_endpoints/1')).body;
  assert.deepEqual([ofAll.name, ofAll.event_types], ['Renamed', []]);
});

test('members, the tokens of browsers and what an organization may spend are managed from the terminal', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  const link = /^http:\/\/127\.0\.0\.1:\d+\/dashboard\/join\?token=(inv_[\w-]{32})\n$/;
  const [, token] = link.exec((await cli(['members', 'invite', 'ann@example.com', '--role', 'admin'])).stdout) ?? [];
  await cli(['members', 'invite', 'bob@example.com']);
  assert.match((await cli(['members', 'invitations'])).stdout, /^(\d+) +bob@example\.com +member +\S+\n\d+ +ann@example\.com +admin /m);
  const { data: open } = JSON.parse((await cli(['members', 'invitations', '--json'])).stdout);
  assert.equal((await cli(['members', 'withdraw', String(open[0].id)])).stdout, `Invitation ${open[0].id} is withdrawn.\n`);
  assert.equal((await app.request('GET', `/api/invitations/${open[0].id}`)).status, 404);
  await app.request('POST', '/api/invitations/accept', { token, name: 'Ann', password: 'a long password' });
  const [, ann = ''] = /^(\S+) +ann@example\.com +Ann +admin$/m.exec((await cli(['members', 'list'])).stdout) ?? [];
  assert.equal((await cli(['members', 'role', ann, 'member'])).stdout, 'ann@example.com is now member.\n');
  assert.equal((await app.request('GET', `/api/members/${ann}`)).body.member.role, 'member');
  assert.equal((await cli(['members', 'remove', ann])).code, 0);
  assert.equal((await app.request('GET', `/api/members/${ann}`)).status, 404);

  const minted = (await cli(['token', 'assistant', '--end-user', 'user_42', '--ttl', '60', '--instance', 'desk'])).stdout.trim();
  const { sub, iat, exp } = JSON.parse(Buffer.from(minted.split('.')[1] ?? '', 'base64url').toString());
  assert.deepEqual([sub, exp - iat], ['user_42', 60]);
  assert.match((await cli(['token', 'assistant', '--ttl', 'soon'])).stderr, /^parley: --ttl: must be a whole number, not soon\n/);

  assert.equal((await cli(['orgs', 'budget', 'demo', '--credits-micros', '0'])).stdout, 'demo: credits_micros 0, total_tokens_cap none\n');
  assert.equal((await cli(['token', 'assistant'])).code, 1, 'over its budget, an organization gets no tokens');
  await cli(['orgs', 'budget', 'demo', '--credits-micros', 'none', '--total-tokens-cap', '500']);
  assert.match((await cli(['orgs', 'list'])).stdout, /^demo +Demo +active +- +0 +500 +0 +-$/m);
  assert.equal((await cli(['orgs', 'subscription', 'demo', 'pro', 'past_due'])).stdout, 'demo: pro, past_due\n');
  assert.match((await cli(['token', 'assistant'])).stderr, /past due/i);
  assert.match((await cli(['orgs', 'list'])).stdout, /^demo .* pro, past_due$/m, 'which is why');
});
