// The command line as a person uses it: a process of its own, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { sql } from 'kysely';
import pg from 'pg';
import { startApp } from '../support/app.ts';
import { baseEnvironment, commandLine, main, run } from '../support/command-line.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { serveLocally } from '../support/local-server.ts';
import { startTransactionPooler } from '../support/transaction-pooler.ts';

test('a conversation in the terminal: streamed answers, and approvals as y, a or n; a failure is in the exit code', async (t) => {
  const cli = await commandLine(await startApp(t));
  const lines = ['/say good day', '/tool bash {"command":"echo from the shell"}', 'what?', 'y', '/tool bash {"command":"echo again"}', 'n'];
  const { code, stdout, stderr } = await cli(['chat', '--session', 'terminal'], `${lines.join('\n')}\n`);
  assert.equal(code, 0);
  assert.match(stdout, /^good day\nbash answered: from the shell\n/);
  assert.match(stderr, /Allow\? \[y\/a\/n\] Allow\? \[y\/a\/n\] \n\[bash: completed\]/);
  assert.match(stderr, /\[bash: denied\]/);
  const shown = await cli(['sessions', 'show', 'assistant', 'terminal']);
  assert.match(shown.stdout, /user: \/say good day\n\nassistant: good day/);
  const again = await cli(['chat', 'assistant', '--session', 'terminal'], '/say again\n');
  assert.deepEqual([again.stdout, /^Session terminal\..*\n> /.test(again.stderr)], ['again\n', true]);
  const left = await cli(['chat', '--session', 'terminal'], '/tool bash {"command":"echo at last"}\n');
  assert.match(left.stderr, /Allow\? \[y\/a\/n\] \n! the request is still open; answer it with: parley chat --session terminal\n> \n$/);
  assert.equal(left.code, 1, 'a script must not take it for an answer');
  const named = await cli(['chat', 'assistant', '--session', 'terminal'], '');
  assert.match(named.stderr, /answer it with: parley chat assistant --session terminal\n/, 'which may not be the default agent');
  const later = await cli(['chat', '--session', 'terminal'], 'y\n/say and on\n');
  assert.deepEqual([later.code, later.stdout], [0, 'bash answered: at last\nand on\n'], 'what was left open is asked again');
  const failed = await cli(['chat'], '/fail rate_limited\n');
  assert.deepEqual([failed.code, failed.stdout, /\n! rate_limited: /.test(failed.stderr)], [1, '', true]);
});

test('Ctrl-C stops the answer and not the conversation, and at an approval says how to answer it later; a reader that has ended ends what follows a session', async (t) => {
  const app = await startApp(t);
  const start = async (...args: string[]) => {
    const settings = { PARLEY_URL: await app.listen(), PARLEY_API_KEY: app.apiKey };
    const child = spawn(process.execPath, [main, ...args], { cwd: tmpdir(), env: { ...baseEnvironment, ...settings } });
    t.after(async () => void child.kill('SIGKILL'));
    return { child, ended: new Promise<number | null>((resolve) => child.on('close', resolve)) };
  };
  const chat = await start('chat', '--session', 'stopped');
  chat.child.stderr.resume();
  chat.child.stdin.write('/delay 1000\n');
  await once(chat.child.stdout, 'data');
  const said = text(chat.child.stdout);
  chat.child.kill('SIGINT');
  await once(chat.child.stderr, 'data');
  // As npm does, which passes on what the terminal has sent already.
  chat.child.kill('SIGINT');
  chat.child.stdin.end('/say still here\n');
  assert.deepEqual([await chat.ended, (await said).endsWith('\nstill here\n')], [0, true], await said);

  const asked = await start('chat', '--session', 'asked');
  asked.child.stdin.write('/tool bash {"command":"echo"}\n');
  let noted = '';
  for await (const piece of asked.child.stderr.setEncoding('utf8')) {
    if (!noted.includes('Allow?') && (noted + piece).includes('Allow?')) asked.child.kill('SIGINT');
    noted += piece;
  }
  assert.match(noted, /Allow\? \[y\/a\/n\] \n! the request is still open; answer it with: parley chat --session asked\n$/);
  assert.equal(await asked.ended, 130);

  const tail = await start('sessions', 'tail', 'assistant', 'stopped');
  const complaint = text(tail.child.stderr);
  let followed = '';
  for await (const piece of tail.child.stdout.setEncoding('utf8')) {
    followed += piece;
    // The last entry of the second turn: nothing more is written after it.
    if (/more.*status_idle/s.test(followed)) break;
    if (followed.endsWith('\n ')) await app.request('POST', '/demo/assistant/v1/sessions/stopped/messages', { text: '/say more' });
  }
  assert.match(followed, /^( {4}[ \d]\d {2}\S.*\n)+ ?$/, 'all lines are aligned');
  assert.deepEqual([await tail.ended, await complaint], [0, '']);
});

test('serve runs the server until it is told to stop; then its secret key can be changed, the new one on standard input', async (t) => {
  const database = await createDatabase();
  const settings = { PATH: process.env.PATH, PORT: '0', PARLEY_LOG_LEVEL: 'warn', ...database.settings };
  const child = spawn(process.execPath, [main, 'serve'], { cwd: tmpdir(), env: settings, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    await database.remove();
  });
  let printed = '';
  for await (const text of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += text;
    if (printed.includes('\n')) break;
  }
  const [, url] = /^Parley is ready at (\S+)/.exec(printed) ?? [];
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
  child.stdout.resume();
  const next = randomBytes(32).toString('base64');
  const early = await run(database.settings, ['rotate-secret-key'], `${next}\n`);
  assert.match(
    early.stderr,
    engine === 'postgres' ? /a server is connected to this database; stop every server first/ : /is in use by process/,
  );
  child.kill('SIGTERM');
  assert.equal(await ended, 0);

  const nothing = await run(database.settings, ['rotate-secret-key']);
  assert.match(nothing.stderr, /^parley: no key on standard input; try: parley rotate-secret-key < file-with-the-key\n$/);
  const folder = mkdtempSync(join(tmpdir(), 'parley-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const elsewhere = await run({ PARLEY_DATA_DIR: folder, PARLEY_SECRET_KEY: next }, ['rotate-secret-key'], `${next}\n`);
  assert.match(elsewhere.stderr, /^parley: \S+db is not there: set PARLEY_DATA_DIR, or DATABASE_URL, as the server has it\n$/);
  assert.deepEqual(readdirSync(folder), [], 'no database is made for it');
  const rotated = await run(database.settings, ['rotate-secret-key'], `${next}\n`);
  assert.deepEqual([rotated.code, /^Re-encrypted \d+ secrets\./.test(rotated.stdout)], [0, true], rotated.stderr);
  if (engine === 'postgres') {
    const { stdout } = await run({ ...database.settings, PARLEY_URL: 'http://127.0.0.1:9' }, ['doctor']);
    assert.match(
      stdout,
      /^FAIL {2}database: PARLEY_SECRET_KEY: this database was encrypted with the key /m,
      'the doctor knows the old one',
    );
  }
  const app = await startApp(t, { database, settings: { PARLEY_SECRET_KEY: next } });
  assert.equal((await app.request('GET', '/readyz')).status, 200);
  await app.close();
});

test('a list of organizations is shown to its end, and nothing in it moves the cursor; nor does a command that waits for approval', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  await app.request('PATCH', '/api/organization', { name: 'Demo\nsuspended\u001b[2J\u009b1A' });
  await sql`with more as (insert into organizations (slug, name) select 'org-' || n, n from generate_series(1, 1000) n returning id)
    insert into budgets (org_id) select id from more`.execute(app.context.database.db);
  const { stdout } = await cli(['orgs', 'list']);
  assert.match(stdout, /^demo +Demo suspended\uFFFD\[2J\uFFFD1A +active +- +0 +- +0 +-$/m);
  assert.match(stdout, /^org-1000 /m);
  const { stdout: json } = await cli(['orgs', 'list', '--json']);
  assert.doesNotMatch(json, /[^\P{Cc}\n]/u);
  const { organizations } = JSON.parse(json);
  assert.deepEqual([organizations.length, organizations[0].name], [1_001, 'Demo\nsuspended\u001b[2J\u009b1A']);
  const hidden = `/tool bash ${JSON.stringify({ command: 'rm -rf .\u001b[2K\rls' })}\n`;
  assert.match((await cli(['chat', '--session', 'hidden'], hidden)).stderr, /Run this command\?\nrm -rf \.\uFFFD\[2K\uFFFDls\n/);
});

test('what is wrong is said in a line, and the exit code tells', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  const absent = 'parley: not found: /api/agents/nobody/releases/1/activate\n';
  assert.deepEqual(await cli(['releases', 'activate', 'nobody', '1']), { code: 1, stdout: '', stderr: absent });
  const unknown = await run({ PARLEY_URL: await app.listen(), PARLEY_API_KEY: 'svc_live_0000000000000000' }, ['agents', 'list']);
  assert.match(unknown.stderr, /does not accept this PARLEY_API_KEY/);
  const nowhere = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.match(nowhere.stderr, /no Parley server at /);
  const own = { HOST: '::1', PORT: '9', PARLEY_API_KEY: 'svc_live_0123456789abcdef' };
  assert.match((await run(own, ['agents', 'list'])).stderr, /no Parley server at http:\/\/\[::1\]:9/, 'where the settings put it');
  const below = await run({ PARLEY_URL: `${await app.listen()}/v1/`, PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.match(below.stderr, /^parley: not found: http:\S+\/v1\/api\/agents \(does \/v1 belong in PARLEY_URL\?\)\n$/);
  const elsewhere = await run({ PARLEY_URL: 'shop', PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.match(elsewhere.stderr, /^parley: PARLEY_URL: must give a URL such as http:\S+, not shop\n$/);
  const badPort = await run({ PORT: 'abc', PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.match(badPort.stderr, /^parley: HOST, PORT: must give a URL such as http:\S+, not http:\/\/127\.0\.0\.1:abc\n$/);
  const { api_key: fresh } = JSON.parse((await cli(['orgs', 'create', 'fresh', '--json'])).stdout);
  const nobody = await run({ PARLEY_URL: await app.listen(), PARLEY_API_KEY: fresh }, ['chat'], 'hello\n');
  assert.equal(nobody.stderr, 'parley: not found: /v1/sessions (is there no default agent? name one: parley chat <agent>)\n');
  await cli(['agents', 'create', 'bare']);
  for (const agent of ['bare', 'nobody']) {
    const { stderr } = await cli(['chat', agent], 'hello\n');
    assert.equal(
      stderr,
      `parley: not found: /demo/${agent}/v1/sessions (no such agent, or it has no active release; see: parley agents list)\n`,
    );
  }
  const doctor = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_API_KEY: app.apiKey, REDIS_URL: 'redis://127.0.0.1' }, ['doctor']);
  assert.match(doctor.stdout, /^FAIL {2}settings: REDIS_URL is not used: /m);
  assert.match(doctor.stdout, /FAIL {2}server: no server at/);
  assert.equal(doctor.code, 1);
  const file = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_API_KEY: app.apiKey, PARLEY_DATA_DIR: main }, ['doctor']);
  assert.match(file.stdout, /^FAIL {2}data directory: \S+main\.ts is not a directory \(PARLEY_DATA_DIR\)$/m);
  const invalid = await run({ PARLEY_URL: 'http://127.0.0.1:9', PARLEY_MAX_TURNS: 'many' }, ['doctor']);
  assert.match(invalid.stdout, /^ok {4}Node: .*\nFAIL {2}settings: PARLEY_MAX_TURNS: .*\nFAIL {2}server: /, 'said once');
  const ailing = await serveLocally((_request, response) => response.writeHead(503).end('{"detail":"No space."}'));
  t.after(() => ailing.close());
  const lost = 'postgres://parley@127.0.0.1:1/parley';
  const { stdout } = await run({ PARLEY_URL: ailing.origin, PARLEY_API_KEY: app.apiKey, DATABASE_URL: lost, PARLEY_DATA_DIR: '/none' }, [
    'doctor',
  ]);
  assert.match(stdout, /^ok {4}data directory: \/none does not exist; a start creates it when it needs it$/m);
  assert.match(stdout, /^FAIL {2}database: DATABASE_URL: connect ECONNREFUSED 127\.0\.0\.1:1$/m);
  assert.match(stdout, /^FAIL {2}server: not ready: \{"detail":"No space\."\}$/m);
  const keys = { PARLEY_API_KEY: app.apiKey, PARLEY_OPERATOR_KEY: app.operatorKey, PARLEY_SECRET_KEY: 'ab'.repeat(32) };
  const keeping = await run({ PARLEY_URL: ailing.origin, ...keys, DATABASE_URL: lost, PARLEY_DATA_DIR: main }, ['doctor']);
  assert.match(keeping.stdout, /^ok {4}data directory: not used: data is in PostgreSQL, and all keys are set$/m);
  assert.match(stdout, /^FAIL {2}API key: the server answered 503 \{"detail":"No space\."\}$/m);
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

test('what stands before the server is named in a line: its error page, where it redirects to, an answer cut short or failed late', async (t) => {
  const proxy = await serveLocally((request, response) => {
    if (request.url?.startsWith('/moved')) response.writeHead(301, { location: `https://parley.example${request.url}` }).end();
    else if (request.url?.startsWith('/cut'))
      response.writeHead(200, { 'content-length': 1_000 }).write('{"data"', () => response.destroy());
    else if (request.url?.startsWith('/late')) response.writeHead(200).end('  {"detail":{"error":"x","message":"The turn failed."}}');
    else response.writeHead(502).end('<html>\r\n<h1>\u001b[2JBad Gateway</h1>\r\n</html>');
  });
  t.after(() => proxy.close());
  const settings = { PARLEY_API_KEY: 'svc_live_0000000000000000' };
  const at = (path: string, args: string[], input?: string) => run({ ...settings, PARLEY_URL: proxy.origin + path }, args, input);
  const page = 'HTTP 502 <html> <h1>\uFFFD[2JBad Gateway</h1> </html>\n';
  assert.deepEqual(await at('/down', ['agents', 'list']), { code: 1, stdout: '', stderr: `parley: ${page}` });
  const moved = `${proxy.origin}/moved redirects to https://parley.example/moved/v1/sessions; set PARLEY_URL to where the server is\n`;
  assert.deepEqual(await at('/moved', ['chat'], 'hello\n'), { code: 1, stdout: '', stderr: `parley: ${moved}` });
  assert.match((await at('/down', ['doctor'])).stdout, /^FAIL {2}server: what answers at \S+\/down is not Parley; /m);
  assert.match((await at('/moved', ['doctor'])).stdout, /^FAIL {2}server: \S+\/moved redirects to /m);
  const cut = 'parley: the server closed the connection in the middle of its answer\n';
  assert.deepEqual(await at('/cut', ['agents', 'list']), { code: 1, stdout: '', stderr: cut });
  assert.deepEqual(await at('/cut', ['audit', 'export']), { code: 1, stdout: '{"data"', stderr: cut });
  const late = 'parley: The turn failed.\n';
  assert.deepEqual(await at('/late', ['chat']), { code: 1, stdout: '', stderr: late }, 'behind the 200 of a long turn');
  const wrapped = await run({ PARLEY_API_KEY: 'svc_live_00000000\n00000000', PARLEY_URL: proxy.origin }, ['agents', 'list']);
  assert.equal(wrapped.stderr, 'parley: PARLEY_API_KEY: a key has only letters, digits, _ and -\n');
});

test('what was mistyped is said in a line, and nothing is changed by it', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  const folder = mkdtempSync(join(tmpdir(), 'parley-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'list.json'), '[]');
  await app.request('PUT', '/api/budget', { total_tokens_cap: 500_000 });
  const mistakes: [args: string[], says: RegExp][] = [
    [['budget', 'set', '--total-tokens-cap', '1e3x'], /^parley: --total-tokens-cap: must be a whole number or none, not 1e3x\n$/],
    [['releases', 'create', 'assistant', join(folder, 'list.json')], /list\.json must hold a JSON object\n$/],
    [['audit', 'export', '--out', join(folder, 'no', 'where.csv')], /^parley: ENOENT/],
    [['rotate-secret-key', '--to', 'a-secret'], /^parley: unknown option '--to'\n/],
    [['webhooks', 'create', 'localhost:3000/hook'], /^parley: localhost:3000\/hook is not a URL; it must start with https:\/\/ or http:/],
    [['agents', 'create'], /^parley: missing required argument 'slug'\nRun it with --help for usage\.\n$/],
  ];
  const ran = await Promise.all(mistakes.map(([args]) => cli(args)));
  ran.forEach(({ code, stdout, stderr }, index) => {
    const [args = [], says = /^$/] = mistakes[index] ?? [];
    assert.match(stderr, says, args.join(' '));
    assert.deepEqual([code, stdout], [1, ''], args.join(' '));
  });
  const { body } = await app.request('GET', '/api/budget');
  assert.equal(body.budget.total_tokens_cap, 500_000);
  const releases = await app.request('GET', '/api/agents/assistant/releases');
  assert.equal(releases.body.data.length, 1);
});
