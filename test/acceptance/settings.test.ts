// What the program says of its settings and arguments, before it looks at any database.
// One engine: this is about how a process begins and ends.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runToEnd } from '../support/server-process.ts';

const directory = mkdtempSync(join(tmpdir(), 'parley-settings-'));
after(() => rmSync(directory, { recursive: true }));
const run = (settings: Record<string, string>, args: string[] = []) => runToEnd({ PARLEY_DATA_DIR: directory, ...settings }, args);

const badSettings: [name: string, value: string, says: string][] = [
  ['PORT', '80a', 'must be a whole number from 0 to 65535, not "80a"'],
  ['PORT', '65536', 'must be a whole number from 0 to 65535, not "65536"'],
  ['PARLEY_RATE_LIMIT_RPS', ' ', 'must be a whole number from 0 to 10000000, not " "'],
  ['OPENAI_API_KEY', 'sk-123\n', 'a key must be printable ASCII without spaces or line breaks'],
  ['DATABASE_URL', 'mysql://127.0.0.1/parley', 'must be a URL that starts with postgres:// or postgresql://'],
  ['DATABASE_URL', 'postgres://parley:a/b@db/parley', 'is not a valid URL; encode special characters of its password (/ is %2F, # is %23)'],
  ['PARLEY_PUBLIC_URL', 'https://parley.example.com/?a=b', 'must be a URL without ? and #'],
  ['REDIS_URL', '127.0.0.1:6379', 'must be a URL that starts with redis:// or rediss://'],
  ['REDIS_URL', 'redis://127.0.0.1:6379/parley', 'what follows the host must be the number of a database, as in redis://host:6379/0'],
  ['REDIS_URL', 'redis://:50%off@127.0.0.1:6379', 'encode special characters of its password (% is %25)'],
  ['PARLEY_API_KEY', 'svc_live_0123456789abcde', 'must be svc_live_ and 16 to 247 of A-Z a-z 0-9 _ -'],
  ['PARLEY_OPERATOR_KEY', 'svc_live_0123456789abcdef', 'must be svc_operator_ and 16 to 243 of A-Z a-z 0-9 _ -'],
  ['PARLEY_SECRET_KEY', 'c2hvcnQ=', 'must be 32 bytes as Base64 or hex, as `openssl rand -base64 32` makes them'],
  ['PARLEY_GATEWAY', 'yes', 'must be 1 or 0, not "yes"'],
  ['PARLEY_GATEWAY_PEERS', '[1]', 'must be a JSON object'],
  ['PARLEY_GATEWAY_PEERS', '{"peer":"k"}', '"peer" must be a URL that starts with http:// or https://'],
  ['PARLEY_LOG_LEVEL', 'loud', 'must be one of fatal, error, warn, info, debug, trace, silent, not "loud"'],
  ['PARLEY_BASE_HOST', 'https://api.example.com', 'must be a host name such as api.example.com, not "https://api.example.com"'],
  ['PARLEY_TRUST_PROXY', '10.0.0.0/33', 'must be addresses or networks such as 10.0.0.0/8, not "10.0.0.0/33"'],
  ['PARLEY_TRUST_PROXY', '10.0.0.0/8/8', 'must be addresses or networks such as 10.0.0.0/8, not "10.0.0.0/8/8"'],
  [
    'PARLEY_CORS_ORIGINS',
    'https://a.example, https://b.example/',
    'must be * or origins such as https://app.example.com, without a path, not "https://b.example/"',
  ],
  [
    'PARLEY_PRICES',
    '{"opnai/gpt-5":{"input":1,"output":1}}',
    '"opnai/gpt-5" must start with one of offline, anthropic, openai, google, openai-compatible',
  ],
  [
    'PARLEY_PRICES',
    '{"openai/gpt-5":{"input":1,"output":1e300}}',
    '"openai/gpt-5" must have "output" as a number of micro-dollars a token, from 0 to 1000000',
  ],
  ['PARLEY_WEBHOOK_RETENTION_DAYS', '2', 'must be a whole number from 3 to 3650, not "2"'],
  ['PARLEY_MAX_TURNS', '0', 'must be a whole number from 1 to 1000000, not "0"'],
];
for (const [name, value, says] of badSettings) {
  test(`${name}=${value} stops the start with one line that names it`, async () => {
    assert.deepEqual(await run({ [name]: value }), { code: 2, output: `parley: ${name}: ${says}\n` });
  });
}

const badArguments: [args: string[], says: string][] = [
  [['--port', '9000'], '--port: is not an option; npm start -- --help lists the options and settings'],
  [['9000'], '9000: is not an option; npm start -- --help lists the options and settings'],
  [['--workers=0'], '--workers: must be a whole number from 1 to 256'],
  [['--workers=2'], '--workers: several processes need DATABASE_URL; the embedded database takes one'],
];
for (const [args, says] of badArguments) {
  test(`${args.join(' ')} behind npm start -- stops it with one line`, async () => {
    assert.deepEqual(await run({}, args), { code: 2, output: `parley: ${says}\n` });
  });
}

test('--help lists every setting and starts nothing', async () => {
  const { code, output } = await run({ PORT: 'not looked at' }, ['--help']);
  assert.equal(code, 0);
  const lines = [...output.matchAll(/^ {2}([A-Z][A-Z0-9_]+) +(.*?)(?: \(default: (.*)\))?$/gm)];
  const named = lines.map(([, name]) => name);
  for (const [name] of badSettings) assert.ok(named.includes(name), name);
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8').replaceAll(/ +/g, ' ');
  for (const [, name, description, fallback] of lines) {
    const row = `| \`${name}\` | ${description} |${fallback === undefined ? '' : ` \`${fallback}\``} |`;
    assert.ok(readme.includes(row), `the table of the README has the row ${row}`);
  }
  for (const name of ['HOST', 'PARLEY_DATA_DIR', 'PARLEY_BASE_HOST', 'PARLEY_AGENT_HOST', 'PARLEY_MANAGEMENT_HOST', 'PARLEY_DRAIN_SECONDS'])
    assert.ok(named.includes(name), name);
});

test('a .env file of the working directory counts, the environment wins over it, and one that cannot be read stops the start', async () => {
  const file = join(directory, '.env');
  writeFileSync(file, 'PARLEY_DRAIN_SECONDS=soon\n');
  try {
    const refused = await run({});
    assert.deepEqual(refused, { code: 2, output: 'parley: PARLEY_DRAIN_SECONDS: must be a whole number from 0 to 3600, not "soon"\n' });
    const elsewhere = await run({ PARLEY_DRAIN_SECONDS: '5', PARLEY_MAX_TURNS: 'x' });
    assert.match(elsewhere.output, /^parley: PARLEY_MAX_TURNS: /);
    writeFileSync(file, '\uFEFFPARLEY_DRAIN_SECONDS=soon\r\n');
    assert.deepEqual(await run({}), refused, 'as some editors write it');
    writeFileSync(file, '\uFEFFPARLEY_DRAIN_SECONDS=soon\r\n', 'utf16le');
    assert.match((await run({})).output, /^parley: \.env: .*utf-8\n$/);
    rmSync(file);
    symlinkSync('.env', file);
    const unreadable = await run({});
    assert.equal(unreadable.code, 2);
    assert.match(unreadable.output, /^parley: \.env: ELOOP.*\n$/);
  } finally {
    rmSync(file);
  }
});
