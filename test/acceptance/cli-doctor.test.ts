// What `parley doctor` finds.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { startApp } from '../support/app.ts';
import { main, run } from '../support/command-line.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { freePort } from '../support/free-port.ts';
import { serveLocally } from '../support/local-server.ts';
import { startTransactionPooler } from '../support/transaction-pooler.ts';

const apiKey = 'svc_live_0123456789abcdef';

test('the doctor says what to fix, and its exit code tells', async (t) => {
  const doctor = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_API_KEY: apiKey, REDIS_URL: 'redis://127.0.0.1' }, ['doctor']);
  assert.match(doctor.stdout, /^FAIL {2}settings: REDIS_URL is not used: /m);
  assert.match(doctor.stdout, /FAIL {2}server: no Parley server at http:\/\/127\.0\.0\.1:9: bad port \(set PARLEY_URL, /m);
  assert.equal(doctor.code, 1);
  const file = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_API_KEY: apiKey, PARLEY_DATA_DIR: main }, ['doctor']);
  assert.match(file.stdout, /^FAIL {2}data directory: \S+main\.ts is not a directory \(PARLEY_DATA_DIR\)$/m);
  const invalid = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_MAX_TURNS: 'many' }, ['doctor']);
  assert.match(invalid.stdout, /^ok {4}Node: .*\nFAIL {2}settings: PARLEY_MAX_TURNS: .*\nFAIL {2}server: /, 'said once');
  const ailing = await serveLocally((_request, response) => response.writeHead(503).end('{"detail":"No space."}'));
  t.after(() => ailing.close());
  const lost = 'postgres://parley@127.0.0.1:1/parley';
  const { stdout } = await run({ PARLEY_URL: ailing.origin, PARLEY_API_KEY: apiKey, DATABASE_URL: lost, PARLEY_DATA_DIR: '/none' }, [
    'doctor',
  ]);
  assert.match(stdout, /^ok {4}data directory: \/none does not exist; a start creates it when it needs it$/m);
  assert.match(stdout, /^FAIL {2}database: DATABASE_URL: connect ECONNREFUSED 127\.0\.0\.1:1$/m);
  assert.match(stdout, /^FAIL {2}server: not ready: \{"detail":"No space\."\}$/m);
  const keys = { PARLEY_API_KEY: apiKey, PARLEY_OPERATOR_KEY: 'svc_operator_0123456789abcdef', PARLEY_SECRET_KEY: 'ab'.repeat(32) };
  const keeping = await run({ PARLEY_URL: ailing.origin, ...keys, DATABASE_URL: lost, PARLEY_DATA_DIR: main }, ['doctor']);
  assert.match(keeping.stdout, /^ok {4}data directory: not used: data is in PostgreSQL, and all keys are set$/m);
  assert.match(stdout, /^FAIL {2}API key: No space\.$/m);
});

test('the doctor says why a server cannot be reached, as every command does, and what answers in its place', async (t) => {
  const app = await startApp(t);
  const parley = await app.listen();
  const stranger = await serveLocally((request, response) => {
    if (request.url?.startsWith('/moved')) response.writeHead(301, { location: 'https://parley.example/' }).end();
    else response.writeHead(404).end('<html></html>');
  });
  t.after(() => stranger.close());
  const usage = /^FAIL {2}server: PARLEY_URL: must give a URL such as http:\/\/127\.0\.0\.1:8080, not /m;
  const urls: [url: string, says: RegExp][] = [
    ['foo', usage],
    ['ftp://127.0.0.1', usage],
    ['http://127.0.0.1:99999', usage],
    ['http://ann:secret@127.0.0.1', /^FAIL {2}server: PARLEY_URL: must give a URL without a user name and a password$/m],
    [`${parley}/v1`, /^FAIL {2}server: not found: http:\S+\/v1\/readyz \(does \/v1 belong in PARLEY_URL\?\)$/m],
    [`http://127.0.0.1:${await freePort()}`, /^FAIL {2}server: no Parley server at \S+: ECONNREFUSED \(set PARLEY_URL, /m],
    [parley.replace('http', 'https'), /^FAIL {2}server: no Parley server at \S+: ERR_SSL_\S+ \(set PARLEY_URL, /m],
    ['http://parley.invalid', /^FAIL {2}server: no Parley server at \S+: (ENOTFOUND|EAI_AGAIN) \(set PARLEY_URL, /m],
    [stranger.origin, /^FAIL {2}server: what answers at \S+ is not Parley; set PARLEY_URL, or PORT to a free one$/m],
    [`${stranger.origin}/moved`, /^FAIL {2}server: \S+\/moved redirects to https:\/\/parley\.example\/; /m],
  ];
  for (const [url, says] of urls) {
    const { code, stdout } = await run({ PARLEY_URL: url, PARLEY_API_KEY: app.apiKey }, ['doctor']);
    assert.match(stdout, says, url);
    assert.equal(code, 1);
  }
  const said = async (settings: Record<string, string>) => (await run({ PARLEY_URL: parley, ...settings }, ['doctor'])).stdout;
  assert.match(await said({ PARLEY_API_KEY: app.apiKey }), /^ok {4}server: ready at \S+\nok {4}API key: accepted$/m);
  assert.match(await said({ PARLEY_API_KEY: apiKey }), /^FAIL {2}API key: the server does not accept this PARLEY_API_KEY$/m);
  const { secret } = (await app.request('POST', '/api/api_keys', { name: 'Reader', scopes: [] })).body;
  assert.match(await said({ PARLEY_API_KEY: secret }), /^ok {4}API key: accepted, without the scope organization:read$/m);
  const folder = mkdtempSync(join(tmpdir(), 'parley-doctor-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'credentials.json'), '');
  assert.match(
    await said({ PARLEY_DATA_DIR: folder }),
    /^FAIL {2}API key: PARLEY_API_KEY is not set, and \S+\/credentials\.json is not JSON; /m,
  );
});

test('the doctor says that another host has what it asked for', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_BASE_HOST: '127.0.0.1', PARLEY_MANAGEMENT_HOST: 'localhost' } });
  const url = await app.listen();
  const said = async (PARLEY_URL: string, command = 'doctor') => run({ PARLEY_URL, PARLEY_API_KEY: app.apiKey }, [command]);
  const { stdout } = await said(url);
  assert.match(
    stdout,
    /^ok {4}server: ready at \S+\nFAIL {2}API key: not found: \/api\/organization \(is PARLEY_URL at the PARLEY_MANAGEMENT_HOST of /m,
  );
  assert.match((await said(url, 'usage')).stderr, /^parley: not found: \/api\/usage \(is PARLEY_URL at the PARLEY_MANAGEMENT_HOST of /);
  assert.match((await said(url.replace('127.0.0.1', 'localhost'))).stdout, /^ok {4}API key: accepted$/m);
});

test('the doctor tells a PostgreSQL that no start could use', { skip: engine !== 'postgres' && 'it is about PostgreSQL' }, async (t) => {
  const { settings, remove } = await createDatabase();
  t.after(remove);
  const saidOf = async (DATABASE_URL: string) =>
    (await run({ ...settings, PARLEY_URL: 'http://127.0.0.1:9', DATABASE_URL }, ['doctor'])).stdout;
  const said = (option: string) => saidOf(`${settings.DATABASE_URL}?options=-c%20${option}`);
  assert.match(
    await said('default_transaction_read_only%3Don'),
    /^FAIL {2}database: DATABASE_URL: .*\. Name a server that takes writes, /m,
  );
  assert.match(
    await said('search_path%3Dnowhere'),
    /^FAIL {2}database: DATABASE_URL: .*\. The search_path of its role must name a schema /m,
  );
  const pooler = await startTransactionPooler(t, settings.DATABASE_URL ?? '');
  assert.match(await saidOf(pooler), /^FAIL {2}database: DATABASE_URL: leads to a pooler in transaction mode\. /m);
});

test('the doctor tells a clock that is wrong, and a database of another version', {
  skip: engine !== 'postgres' && 'as above',
}, async (t) => {
  const { settings, remove } = await createDatabase();
  const database = new pg.Client(settings.DATABASE_URL);
  await database.connect();
  t.after(() => database.end().then(remove));
  const said = async (more = {}) => (await run({ ...settings, ...more, PARLEY_URL: 'http://127.0.0.1:9' }, ['doctor'])).stdout;
  const hourAhead = '--import=data:text/javascript,const{now}=Date;Date.now=()=>now()+36e5';
  assert.match(await said({ NODE_OPTIONS: hourAhead }), /^FAIL {2}database: the clock here and that of PostgreSQL differ by 3600 s: /m);
  assert.match(await said(), /^ok {4}database: PostgreSQL, reachable$/m);
  await database.query('delete from migrations where name = (select max(name) from migrations)');
  assert.match(await said(), /^ok {4}database: PostgreSQL, reachable; the next start migrates it \(\d+-\S+\.sql\)$/m);
  await database.query("insert into migrations (name) values ('9999-from-tomorrow.sql')");
  assert.match(await said(), /^FAIL {2}database: A newer version of Parley has changed this database \(9999-from-tomorrow\.sql\)\./m);
});

test('the doctor tells a Redis that no start could reach', { skip: engine !== 'postgres' && 'Redis is for PostgreSQL' }, async (t) => {
  const { settings, remove } = await createDatabase();
  t.after(remove);
  const { stdout } = await run({ ...settings, PARLEY_URL: 'http://127.0.0.1:9', REDIS_URL: 'redis://127.0.0.1:1' }, ['doctor']);
  assert.match(stdout, /^ok {4}settings: /m);
  assert.match(stdout, /^FAIL {2}database: REDIS_URL: connect ECONNREFUSED 127\.0\.0\.1:1$/m);
});
