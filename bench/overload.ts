// `node bench/overload.ts`: how the server copes with three times the load that it can serve, and what one organization's flood
// does to the turns of another. It starts itself again as `flood` or `crowd` to send load from another process, or as `refuse`.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type FloodReport, percentile, runClients, sendFlood, type Target } from '../test/support/flood.ts';
import { headers, key, operatorKey, type Parley, startParley } from './parley.ts';

const seconds = Number(process.env.BENCH_SECONDS ?? '5');
/** A flood takes a second or two to open its connections; the time after that should outweigh it. */
const floodSeconds = 4 * seconds;
/** Each takes the better part of a minute. */
const rounds = 3;
/** Short ones, so that the machine seldom becomes slower or faster within one. */
const fairnessRounds = 7;
const fairnessMs = 400 * seconds;
const message = '{"text":"/words 64"}';
const completion = '{"messages":[{"role":"user","content":"/words 64"}]}';
/** A turn of a tenth of a second, nearly all of which it waits, as for a real model. */
const slowCompletion = '{"messages":[{"role":"user","content":"/delay 10\\n/words 11"}]}';
const slowTurns = 20;
/** The setting with which slow turns reach their limit long before the processor is full. */
export const slowTurnLimit = { PARLEY_MAX_TURNS: String(slowTurns) };

/** What the bare refusals answer: as many bytes as a refusal of the server. */
const refusal =
  'HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: 160\r\nretry-after: 1\r\n' +
  `x-request-id: rid_${'0'.repeat(22)}\r\nx-should-retry: true\r\nconnection: keep-alive\r\n\r\n${'x'.repeat(160)}`;

if (process.argv[2] === 'flood') {
  const { target, capacity, seconds: howLong } = JSON.parse(process.argv[3] ?? '{}');
  process.send?.(await sendFlood(target, capacity, howLong));
} else if (process.argv[2] === 'refuse') {
  const server = createServer({ noDelay: true }, (socket) => {
    // A request comes in one piece here, and a sender that goes away resets its connections.
    socket.on('data', () => socket.write(refusal)).on('error', () => socket.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  process.send?.((server.address() as AddressInfo).port);
} else if (process.argv[2] === 'crowd') {
  const [crowd] = (await once(process, 'message')) as [Target[]];
  const isOver = new AbortController();
  process.once('message', () => isOver.abort());
  process.send?.((await runClients(crowd, isOver.signal)).length);
  process.disconnect();
} else if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const parley = await startParley(undefined);
  const limited = await startParley(undefined, slowTurnLimit);
  process.stdout.write(await measureOverload([{ name: 'Parley on PGlite', parley }], { name: 'Parley on PGlite', parley: limited }));
  for (const server of [parley, limited]) await server.stop();
}

interface Served {
  name: string;
  parley: Parley;
}

/** `limited` is a server with `slowTurnLimit`. */
export async function measureOverload(engines: Served[], limited: Served): Promise<string> {
  const overload = [
    '## Three times the load that it can carry',
    '',
    `New conversations on the chat-completions wire for ${floodSeconds} s, sent whether or not earlier ones were answered, over up to 4,000 connections, by a sender on the same cores.`,
    'What those cores allow is measured too: the share of its rate that the server keeps if the surplus, twice its rate, goes to another process that answers it with constant bytes.',
    '',
    '| what | carries turns/s | sent/s | served/s | kept, by round | kept beside bare refusals | shed with 503 | anything else | p50 ms served | well again after s |',
    '|---|---|---|---|---|---|---|---|---|---|',
  ];
  const fairness = [
    '## Turns of one organization while another floods with 256 clients',
    '',
    `Medians of ${fairnessRounds} rounds, alone and beside it by turns.`,
    '',
    '| what | its clients | alone p50 ms | beside p50 ms | ratio | alone p95 ms | beside p95 ms | ratio | flood turns/s |',
    '|---|---|---|---|---|---|---|---|---|',
  ];
  for (const { name, parley } of engines) {
    const crowd = await createTenant(parley, 'crowd', 256);
    const guest = await createTenant(parley, 'guest', 8);
    // Until the server no longer counts the guest as active and gives the crowd its whole capacity.
    await sleep(2_500);
    const target = { url: `${parley.url}/crowd/helper/v1/chat/completions`, key: crowd[0]?.key ?? '', body: completion };
    overload.push(`| ${name} | ${(await overloaded(target, 64)).join(' | ')} |`);
    for (const clients of [1, 8])
      fairness.push(`| ${name} | ${clients} | ${(await besideFlood(crowd, guest.slice(0, clients))).join(' | ')} |`);
  }
  const slow = { url: `${limited.parley.url}/demo/assistant/v1/chat/completions`, key, body: slowCompletion };
  const limitedName = `${limited.name}, at most ${slowTurns} turns at once of 0.1 s each`;
  overload.push(`| ${limitedName} | ${(await overloaded(slow, slowTurns)).join(' | ')} |`);
  return [...overload, '', ...fairness, ''].join('\n');
}

interface Flooded {
  capacity: number;
  report: FloodReport;
  kept: number;
  keptBesideBare: number;
  wellAfter: number;
}

/** What the server serves in a flood, by the round with the median share of what it can serve. */
async function overloaded(target: Target, clientCount: number): Promise<(number | string)[]> {
  const clients = Array<Target>(clientCount).fill(target);
  await runClients(clients, AbortSignal.timeout(2_000));
  const floods: Flooded[] = [];
  while (floods.length < rounds) floods.push(await flood(target, clients));
  const byShare = floods.toSorted((left, right) => left.kept - right.kept);
  const median = byShare[rounds >> 1];
  if (median === undefined) throw new Error('no round was measured');
  const { capacity, report, wellAfter } = median;
  const withoutRetryAfter = report.shed.filter(({ retryAfter }) => retryAfter === undefined).length;
  return [
    Math.round(capacity),
    Math.round(report.sent / floodSeconds),
    Math.round(report.servedInTime / floodSeconds),
    byShare.map(({ kept }) => round(kept)).join(', '),
    byShare.map(({ keptBesideBare }) => round(keptBesideBare)).join(', '),
    `${report.shed.length}${withoutRetryAfter === 0 ? '' : `, ${withoutRetryAfter} without Retry-After`}`,
    report.sent - report.shed.length - (report.statuses[200] ?? 0),
    report.p50,
    wellAfter,
  ];
}

/** What the server can serve is measured again and again, because the machine may become slower or faster meanwhile. */
async function flood(target: Target, clients: Target[]): Promise<Flooded> {
  const carried = async (howLong = seconds) => (await runClients(clients, AbortSignal.timeout(howLong * 1000))).length / howLong;
  const atFirst = await carried();
  const besideBare = await besideBareRefusals(target, 2 * atFirst, () => carried(2 * seconds));
  const before = await carried();
  const usual = percentile(await runClients([target], AbortSignal.timeout(1_000)), 0.9);
  const report = await floodFromElsewhere(target, before, floodSeconds);
  const wellAfter = await untilWell(target, usual);
  const capacity = (before + (await carried())) / 2;
  const kept = report.servedInTime / floodSeconds / capacity;
  return { capacity, report, kept, keptBesideBare: (2 * besideBare) / (atFirst + before), wellAfter };
}

/** Measures while another process refuses `surplus` requests a second, which is the least that a flood takes of the processors. */
async function besideBareRefusals(target: Target, surplus: number, measure: () => Promise<number>): Promise<number> {
  const refusing = fork(fileURLToPath(import.meta.url), ['refuse']);
  const [port] = (await once(refusing, 'message')) as [number];
  const { pathname } = new URL(target.url);
  const flooded = floodFromElsewhere({ ...target, url: `http://127.0.0.1:${port}${pathname}` }, surplus / 3, 2 * seconds);
  const measured = await measure();
  await flooded;
  refusing.kill();
  return measured;
}

/** The report of a flood that another process sends. */
async function floodFromElsewhere(target: Target, capacity: number, howLong: number): Promise<FloodReport> {
  const child = fork(fileURLToPath(import.meta.url), ['flood', JSON.stringify({ target, capacity, seconds: howLong })]);
  const [report] = (await once(child, 'message')) as [FloodReport];
  return report;
}

/** Seconds until a turn takes less than twice its usual time again. */
async function untilWell(target: Target, usualMs: number): Promise<number> {
  const begun = performance.now();
  for (;;) {
    const elapsed = (performance.now() - begun) / 1000;
    const times = await runClients([target], AbortSignal.timeout(100));
    if (percentile(times, 0.5) < 2 * usualMs || elapsed > 30) return round(elapsed);
  }
}

/** The turns of `guest` alone and beside the flood of `crowd`, alternately: the medians of all rounds, and of the ratios in each. */
async function besideFlood(crowd: Target[], guest: Target[]): Promise<number[]> {
  const measured: { alone: number[]; beside: number[]; served: number }[] = [];
  while (measured.length < fairnessRounds) {
    const alone = await runClients(guest, AbortSignal.timeout(fairnessMs));
    measured.push({ alone, ...(await whileFlooded(crowd, guest)) });
  }
  const median = (values: number[]) => percentile(values, 0.5);
  const both = (share: number) => [
    median(measured.map(({ alone }) => percentile(alone, share))),
    median(measured.map(({ beside }) => percentile(beside, share))),
    median(measured.map(({ alone, beside }) => percentile(beside, share) / percentile(alone, share))),
  ];
  return [...both(0.5), ...both(0.95), Math.round(median(measured.map(({ served }) => served)))];
}

async function whileFlooded(crowd: Target[], guest: Target[]): Promise<{ beside: number[]; served: number }> {
  // From another process, so that only the server can delay the guest, not the load generator.
  const flood = fork(fileURLToPath(import.meta.url), ['crowd']);
  flood.send(crowd);
  // Until the server sees that the flood is more than a burst.
  await sleep(2_500);
  const begun = performance.now();
  const beside = await runClients(guest, AbortSignal.timeout(fairnessMs));
  flood.send('stop');
  const [count] = (await once(flood, 'message')) as [number];
  return { beside, served: count / ((performance.now() - begun) / 1000 + 2.5) };
}

/** Creates an organization with so many sessions. Returns a target for each: where and how a client sends its messages. */
async function createTenant(parley: Parley, slug: string, sessions: number): Promise<Target[]> {
  const post = async (path: string, key: string, body: unknown) => {
    const init = { method: 'POST', headers: { ...headers, authorization: `Bearer ${key}` }, body: JSON.stringify(body) };
    const response = await fetch(parley.url + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  const { api_key: key } = await post('/operator/organizations', operatorKey, { slug });
  await post('/api/agents', key, { slug: 'helper', default: true });
  await post('/api/agents/helper/releases', key, { activate: true });
  const targets: Target[] = [];
  for (let index = 0; index < sessions; index += 1) {
    const { id } = await post('/v1/sessions', key, {});
    targets.push({ url: `${parley.url}/v1/sessions/${id}/messages`, key, body: message });
  }
  return targets;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
