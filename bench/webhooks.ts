// `node bench/webhooks.ts`: how many webhooks a second are delivered to 200 endpoints, and how many when one in ten endpoints never answers.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { percentile } from '../test/support/flood.ts';
import { call, headers, startParley } from './parley.ts';

const endpoints = 200;
const deadEvery = 10;
/** Each event is delivered to every endpoint. */
const events = 10;
const rounds = 5;

/** On PGlite, or on the given PostgreSQL database. Only deliveries to endpoints that answer are counted. */
export async function measureWebhooks(name: string, databaseUrl: string | undefined): Promise<string> {
  const measured: { allAlive: number; oneInTenDead: number }[] = [];
  while (measured.length < rounds)
    measured.push({ allAlive: await measureRun(databaseUrl, false), oneInTenDead: await measureRun(databaseUrl, true) });
  const median = (of: (round: (typeof measured)[number]) => number) => percentile(measured.map(of), 0.5);
  const allAlive = median((round) => round.allAlive);
  const oneInTenDead = median((round) => round.oneInTenDead);
  const kept = median((round) => round.oneInTenDead / round.allAlive);
  return [
    `## Webhooks to ${endpoints} endpoints, one in ten dead`,
    '',
    `The median of ${rounds} rounds.`,
    '',
    '| what | all alive, deliveries/s | one in ten dead, deliveries/s | kept |',
    '|---|---|---|---|',
    `| ${name} | ${allAlive} | ${oneInTenDead} | ${kept} |`,
    '',
  ].join('\n');
}

async function measureRun(databaseUrl: string | undefined, withDead: boolean): Promise<number> {
  const receiver = await startReceiver();
  const parley = await startParley(databaseUrl, { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' });
  try {
    const ids: number[] = [];
    for (let index = 0; index < endpoints; index += 1) {
      const isDead = withDead && index % deadEvery === 0;
      const body = { name: `Endpoint ${index}`, url: `${receiver.url}/${isDead ? 'dead' : 'alive'}`, event_types: ['api_key.created'] };
      const created = await call<{ webhook_endpoint: { id: number } }>(parley, '/api/webhook_endpoints', body);
      ids.push(created.webhook_endpoint.id);
    }
    const living = withDead ? endpoints - endpoints / deadEvery : endpoints;
    const begun = performance.now();
    const arrived = receiver.countTo(living * events);
    for (let index = 0; index < events; index += 1) await call(parley, '/api/api_keys', { name: `Event ${index}`, scopes: [] });
    await arrived;
    const perSecond = Math.round((living * events * 1_000) / (performance.now() - begun));
    // With a given database, the next run uses the same one.
    for (const id of ids) await fetch(`${parley.url}/api/webhook_endpoints/${id}`, { method: 'DELETE', headers: bearer });
    return perSecond;
  } finally {
    await parley.stop();
    receiver.close();
  }
}

const bearer = { authorization: headers.authorization };

/** Answers `/alive` at once and `/dead` never. */
async function startReceiver() {
  let count = 0;
  let goal = Number.POSITIVE_INFINITY;
  let reached = () => {};
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url === '/dead') return;
      response.writeHead(200).end();
      count += 1;
      if (count >= goal) reached();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The receiver has no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    countTo(wanted: number): Promise<void> {
      goal = wanted;
      return new Promise((resolve) => {
        reached = resolve;
      });
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

if (import.meta.main) {
  const { DATABASE_URL } = process.env;
  process.stdout.write(await measureWebhooks(`Parley on ${DATABASE_URL === undefined ? 'PGlite' : 'PostgreSQL'}`, DATABASE_URL));
}
