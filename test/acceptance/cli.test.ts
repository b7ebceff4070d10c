// The command line as a person uses it: a process of its own, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { sql } from 'kysely';
import { startApp } from '../support/app.ts';
import { baseEnvironment, commandLine, main, run } from '../support/command-line.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { serveLocally } from '../support/local-server.ts';

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
  const thoughtful = await cli(['chat', '--thinking'], '/think let me see\n');
  assert.match(thoughtful.stderr, /let me see\n> \n$/, 'the answer begins in a line of its own, also where a terminal shows both');
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

  const waiting = await start('sessions', 'tail', 'assistant', 'asked');
  let shown = '';
  for await (const piece of waiting.child.stdout.setEncoding('utf8')) {
    shown += piece;
    if (/status_idle.*\n/.test(shown)) break;
  }
  assert.match(shown, /status_idle {2}\{"stop_reason":"requires_action","request_id":"req_\w+","message":"Run this command\?\\necho"\}\n/);

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
  const wrong = await run(database.settings, ['rotate-secret-key'], 'hunter2\n');
  assert.match(wrong.stderr, /^parley: the new key must be 32 bytes as Base64 or hex, as `openssl rand -base64 32` makes them\n$/);
  const rotated = await run(database.settings, ['rotate-secret-key'], `${next}\n`);
  assert.deepEqual(
    [
      rotated.code,
      /^Re-encrypted \d+ secrets\. Set PARLEY_SECRET_KEY to the new key or, if it was never set, put the key into secret\.key /.test(
        rotated.stdout,
      ),
    ],
    [0, true],
    rotated.stderr,
  );
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

test('a list of sessions says which page it is, also where there is none of the number that was asked for', async (t) => {
  const app = await startApp(t);
  const cli = await commandLine(app);
  await Promise.all(Array.from({ length: 51 }, () => app.request('POST', '/v1/sessions', {})));
  const listed = async (page: string) => (await cli(['sessions', 'list', 'assistant', '--page', page])).stdout;
  assert.match(await listed('2'), /^ID .*\nses_\S+ .*\n\nPage 2 of 2, 51 sessions\.\n$/);
  assert.match(await listed('-1'), /\n\nPage 1 of 2, 51 sessions\.\n$/);
  assert.equal(await listed('3'), 'There is no page 3.\n');
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
  const signedIn = await run({ PARLEY_URL: 'http://ann:secret@127.0.0.1:9', PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.equal(signedIn.stderr, 'parley: PARLEY_URL: must give a URL without a user name and a password\n');
  const badPort = await run({ PORT: 'abc', PARLEY_API_KEY: app.apiKey }, ['agents', 'list']);
  assert.match(badPort.stderr, /^parley: HOST, PORT: must give a URL such as http:\S+, not http:\/\/127\.0\.0\.1:abc\n$/);
  const { api_key: fresh } = JSON.parse((await cli(['orgs', 'create', 'fresh', '--json'])).stdout);
  const nobody = await run({ PARLEY_URL: await app.listen(), PARLEY_API_KEY: fresh }, ['chat'], 'hello\n');
  assert.equal(nobody.stderr, 'parley: not found: /v1/sessions (is there no default agent? name one: parley chat <agent>)\n');
  await cli(['agents', 'create', 'bare']);
  await cli(['agents', 'create', 'other']);
  await cli(['releases', 'create', 'other', '-', '--activate'], '{"instructions":"Be brief."}');
  await app.request('POST', '/v1/sessions', { session_id: 'first' });
  for (const [agent, ...session] of [['bare'], ['nobody'], ['other', '--session', 'first']]) {
    const { stderr } = await cli(['chat', String(agent), ...session], 'hello\n');
    const why = '(no such agent, or it has no active release, or this session is of another; see: parley agents list)';
    assert.equal(stderr, `parley: not found: /demo/${agent}/v1/sessions ${why}\n`);
  }
});

test('a key that is nowhere is said to be missing with the file that was looked for, and what is wrong with that', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parley-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'credentials.json');
  const said = async (...args: string[]) =>
    (await run({ PARLEY_DATA_DIR: folder, PARLEY_URL: 'http://127.0.0.1:9' }, args)).stderr.replaceAll(file, 'FILE');
  const printed = 'the first `npm start` printed it\n';
  assert.equal(await said('agents', 'list'), `parley: PARLEY_API_KEY is not set, and FILE is not there; ${printed}`);
  writeFileSync(file, '{"api_key":');
  assert.equal(await said('agents', 'list'), `parley: PARLEY_API_KEY is not set, and FILE is not JSON; ${printed}`);
  writeFileSync(file, '{"api_key":"svc_live_0123456789abcdef"}');
  assert.equal(await said('orgs', 'list'), `parley: PARLEY_OPERATOR_KEY is not set, and FILE has no operator_key; ${printed}`);
  assert.match(await said('agents', 'list'), /^parley: no Parley server at /);
  rmSync(file);
  mkdirSync(file);
  assert.equal(await said('agents', 'list'), `parley: PARLEY_API_KEY is not set, and FILE cannot be read (EISDIR); ${printed}`);
});

test('what stands before the server is named in a line: its error page, where it redirects to, an answer cut short or failed late', async (t) => {
  const proxy = await serveLocally((request, response) => {
    if (request.url?.startsWith('/moved')) response.writeHead(301, { location: `https://parley.example${request.url}` }).end();
    else if (request.url?.startsWith('/cut'))
      response.writeHead(200, { 'content-length': 1_000 }).write('{"data"', () => response.destroy());
    else if (request.url?.startsWith('/broken') && request.url.endsWith('/messages'))
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write('data: {"type":"text","data":{}}\n\n', () => response.destroy());
    else if (request.url?.startsWith('/broken'))
      response.writeHead(200).end('{"organization":{"slug":"demo"},"id":"ses_1","pending_input":null}');
    else if (request.url?.startsWith('/late')) response.writeHead(200).end('  {"detail":{"error":"x","message":"The turn failed."}}');
    else if (request.url?.startsWith('/other')) response.writeHead(405).end();
    else response.writeHead(502).end('<html>\r\n<h1>\u001b[2JBad Gateway</h1>\r\n</html>');
  });
  t.after(() => proxy.close());
  const settings = { PARLEY_API_KEY: 'svc_live_0000000000000000' };
  const at = (path: string, args: string[], input?: string) => run({ ...settings, PARLEY_URL: proxy.origin + path }, args, input);
  const page = 'HTTP 502 <html> <h1>\uFFFD[2JBad Gateway</h1> </html>\n';
  assert.deepEqual(await at('/down', ['agents', 'list']), { code: 1, stdout: '', stderr: `parley: ${page}` });
  const other = `what answers at ${proxy.origin}/other is not Parley; set PARLEY_URL, or PORT to a free one (HTTP 405)\n`;
  assert.deepEqual(await at('/other', ['chat']), { code: 1, stdout: '', stderr: `parley: ${other}` });
  const moved = `${proxy.origin}/moved redirects to https://parley.example/moved/v1/sessions; set PARLEY_URL to where the server is\n`;
  assert.deepEqual(await at('/moved', ['chat'], 'hello\n'), { code: 1, stdout: '', stderr: `parley: ${moved}` });
  const cut = 'parley: the server closed the connection in the middle of its answer\n';
  assert.deepEqual(await at('/cut', ['agents', 'list']), { code: 1, stdout: '', stderr: cut });
  assert.deepEqual(await at('/cut', ['audit', 'export']), { code: 1, stdout: '{"data"', stderr: cut });
  const broken = await at('/broken', ['chat', 'support'], 'hello\n');
  assert.match(broken.stderr, /! the server closed the stream; the answer goes on there, see: parley sessions show support ses_1\n/);
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
