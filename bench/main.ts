// `npm run bench`: measures what a turn costs, next to a bare node:http server. Prints tables and writes bench/results.md.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../test/support/flood.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { adapterTables } from './adapters.ts';
import { measureApprovals } from './approvals.ts';
import { createDatabase } from './databases.ts';
import { measureFanOut } from './fan-out.ts';
import { type Contender, compare, type Measured, measure, rounds, table } from './measure.ts';
import { measureOverload, slowTurnLimit } from './overload.ts';
import { activateUpstream, call, createSessions, type Engine, headers, startParley } from './parley.ts';
import { startPortkey } from './peers.ts';
import { rssMiB, startProgram } from './processes.ts';
import { measureStored } from './stored.ts';
import { measureStreams } from './streams.ts';
import { measureWebhooks } from './webhooks.ts';

const seconds = Number(process.env.BENCH_SECONDS ?? '1');
const clients = 32;
/** So many that every conversation stays short and all contenders send about the same to the model. */
const sessionCount = 40 * clients;
/** Turn 200 against turn 20: of one session alone, a disturbance of half a second would be in the early or in the late turns only. */
const longSessions = 5;
const modelServer = 'the model server itself';
const onPGlite = 'Parley on PGlite';
const onPostgres = 'Parley on PostgreSQL';
const sections: string[] = [];

const postgres = await startPostgres();
// A server of its own, so that the vacuum of neither database slows the other down.
const handRolledPostgres = await startPostgres();
const peers = process.argv.includes('--peers') ? [await startPortkey()] : [];
const secret = { PARLEY_SECRET_KEY: Buffer.alloc(32, 'bench').toString('base64') };
const home = { PARLEY_DATA_DIR: mkdtempSync(join(tmpdir(), 'parley-bench-')) };
// The first start compiles the code and creates the database; the reported time is that of a later one.
await (await startParley(postgres.url, secret)).stop();
await (await startParley(undefined, home)).stop();
// In this order, because after its start PGlite goes on compiling its WebAssembly for a while.
const served = await startParley(postgres.url, secret);
const embedded = await startParley(undefined, home);
// Until that is done: it takes a gigabyte for a moment, and the memory when idle is reported below.
await sleep(15_000);
const engines: Engine[] = [
  { name: onPGlite, parley: embedded, pids: [embedded.pid] },
  { name: onPostgres, parley: served, pids: [served.pid, postgres.pid] },
];
report(
  [
    '# What a turn costs',
    '',
    `Measured by \`npm run bench\` (the median of ${rounds} rounds of ${seconds} s, Node ${process.version}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB).`,
    'CPU is that of the server and its database, which runs without fsync. The ratio is to the first row of each table, in the same round.',
    '',
    ...engines.map(({ name, parley }) => `${name}: ready after ${parley.startMs} ms, ${rssMiB(parley.pid)} MiB resident when idle.`),
    '',
  ].join('\n'),
);

await offlineTurns('Unary turn, offline model, 32 clients', 'unary');
await offlineTurns('Streamed turn of 64 chunks, offline model, 32 clients', 'stream');
await longSession();
for (const engine of engines) for (const rows of await adapterTables(engine, clients, seconds)) report(rows);
report(await measureApprovals(engines));
report(await measureFanOut(engines));
await upstreamTurns('Unary turn from a model server, 32 clients', 0, clients, false);
await upstreamTurns('Streamed turn of 64 chunks from a model server, 32 clients', 0, clients, true);
await upstreamTurns('The same, the model pacing 10 ms a chunk', 10, clients, true);
await upstreamTurns('The same, one client: the first word', 0, 1, true);
report(await measureStreams(postgres.url, 10_000));
// After the others, because PGlite is busy for a while with cleaning up after it.
const limited = await startParley(await createDatabase(postgres.url, 'limited'), slowTurnLimit);
report(await measureOverload(engines, { name: onPostgres, parley: limited }));

for (const parley of [embedded, served, limited]) await parley.stop();
rmSync(home.PARLEY_DATA_DIR, { recursive: true, force: true });
for (const peer of [...peers, handRolledPostgres]) await peer.stop();
report(await measureWebhooks(onPGlite, undefined));
report(await measureStored(postgres, 1_000_000));
await postgres.stop();
writeFileSync(join(import.meta.dirname, 'results.md'), sections.join('\n'));

async function offlineTurns(title: string, mode: 'unary' | 'stream'): Promise<void> {
  const bare = await startProgram('bare.ts', [mode]);
  const body = JSON.stringify({ text: '/words 64', stream: mode === 'stream' });
  const contenders: Contender[] = [{ name: 'bare node:http', plan: plan(bare.url, clients, ['/'], body), pids: [bare.pid] }];
  for (const engine of engines) contenders.push(await contenderFor(engine, body, clients));
  reportEngines(title, await measure(contenders));
  await bare.stop();
}

/** Turn 200 of a session against turn 20: the cost of a turn must not grow with its session. */
async function longSession(): Promise<void> {
  const lines = [
    '## Turn 200 against turn 20 of one session',
    '',
    `The p50 over ${longSessions} sessions.`,
    '',
    '| what | turns 11-30 ms | turns 191-210 ms | ratio |',
    '|---|---|---|---|',
  ];
  for (const { name, parley } of engines) {
    const early: number[] = [];
    const late: number[] = [];
    for (const session of await createSessions(parley, longSessions)) {
      for (let turn = 1; turn <= 210; turn += 1) {
        const begun = performance.now();
        await call(parley, `/v1/sessions/${session}/messages`, { text: '/words 64' });
        if (turn > 10 && turn <= 30) early.push(performance.now() - begun);
        if (turn > 190) late.push(performance.now() - begun);
      }
    }
    const [atFirst, atLast] = [percentile(early, 0.5), percentile(late, 0.5)];
    lines.push(`| ${name} | ${atFirst} | ${atLast} | ${Math.round((atLast / atFirst) * 100) / 100} |`);
  }
  report(`${lines.join('\n')}\n`);
}

async function upstreamTurns(title: string, pace: number, count: number, stream: boolean): Promise<void> {
  const upstream = await startProgram('upstream.ts', [String(pace)]);
  const bare = await startProgram('bare.ts', ['proxy', upstream.url]);
  const body = JSON.stringify({ text: 'Hello', stream });
  const contenders: Contender[] = [{ name: 'bare node:http proxy', plan: plan(bare.url, count, ['/'], body), pids: [bare.pid] }];
  for (const engine of engines) {
    await activateUpstream(engine.parley, upstream.url);
    contenders.push(await contenderFor(engine, body, count));
  }
  const handRolled = await startProgram('hand-rolled.ts', [handRolledPostgres.url, upstream.url]);
  const paths = Array.from({ length: sessionCount }, (_, index) => `/sessions/${index}/messages`);
  contenders.push({
    name: 'hand-rolled: Fastify, streamText, PostgreSQL',
    plan: plan(handRolled.url, count, paths, body),
    pids: [handRolled.pid, handRolledPostgres.pid],
  });
  for (const peer of peers) {
    const asked = plan(peer.url, count, Array(count).fill(peer.path), peer.body(stream));
    contenders.push({ name: peer.name, plan: { ...asked, headers: peer.headers(upstream.url) }, pids: [peer.pid] });
  }
  if (count === 1) {
    const asked = plan(upstream.url, count, ['/chat/completions'], JSON.stringify({ stream }));
    contenders.push({ name: modelServer, plan: asked, pids: [upstream.pid] });
  }
  reportEngines(title, await measure(contenders));
  for (const program of [handRolled, bare, upstream]) await program.stop();
}

/** The table, and below it what only a comparison of the same rounds can tell on a machine whose speed changes. */
function reportEngines(title: string, measured: Measured[]): void {
  const cpu = compare(measured, [onPGlite, onPostgres], (row, other) => row.cpuPerTurn / other.cpuPerTurn);
  const lines = [table(title, measured), `${onPGlite} takes ${cpu} times the CPU of ${onPostgres}.`, ''];
  if (measured.some(({ name }) => name === modelServer)) {
    const above = (name: string) => compare(measured, [name, modelServer], (row, other) => row.firstByteP50 - other.firstByteP50);
    const names = measured.map(({ name }) => name).filter((name) => name !== modelServer);
    lines.push(
      'The first word comes later than from the model server itself, in ms:',
      '',
      ...names.map((name) => `- ${name}: ${above(name)}`),
      '',
    );
  }
  report(lines.join('\n'));
}

async function contenderFor({ name, parley, pids }: Engine, body: string, count: number): Promise<Contender> {
  const sessions = await createSessions(parley, sessionCount);
  const paths = sessions.map((id) => `/v1/sessions/${id}/messages`);
  return { name, plan: plan(parley.url, count, paths, body), pids };
}

function plan(url: string, count: number, paths: string[], body: string) {
  return { url, clients: count, paths, headers, body, seconds };
}

function report(text: string): void {
  sections.push(text);
  process.stdout.write(`${text}\n`);
}
