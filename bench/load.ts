// Keeps `clients` requests in flight for `seconds` and reports what they saw, as one line of JSON.
import { Agent, request } from 'node:http';
import { percentile } from '../test/support/flood.ts';

export interface LoadPlan {
  clients: number;
  /** A client's requests go to these in turn: the client's own, one in `clients`. */
  paths: string[];
  url: string;
  headers: Record<string, string>;
  body: string;
  /** One body per path, where the session is named there. */
  bodies?: string[];
  seconds: number;
}

export interface LoadReport {
  turns: number;
  perSecond: number;
  p50: number;
  p99: number;
  firstByteP50: number;
}

const plan: LoadPlan = JSON.parse(process.argv[2] ?? '{}');
const agent = new Agent({ keepAlive: true, maxSockets: plan.clients });
const latencies: number[] = [];
const firstBytes: number[] = [];
const begun = performance.now();
await Promise.all(Array.from({ length: plan.clients }, (_, client) => runClient(client)));
const elapsed = (performance.now() - begun) / 1000;
const report: LoadReport = {
  turns: latencies.length,
  perSecond: Math.round(latencies.length / elapsed),
  p50: percentile(latencies, 0.5),
  p99: percentile(latencies, 0.99),
  firstByteP50: percentile(firstBytes, 0.5),
};
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);

async function runClient(client: number): Promise<void> {
  const until = performance.now() + plan.seconds * 1000;
  for (let place = client; performance.now() < until; place = (place + plan.clients) % plan.paths.length)
    await send(plan.paths[place] ?? '', plan.bodies?.[place] ?? plan.body);
}

function send(path: string, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const outgoing = request(plan.url + path, { method: 'POST', agent, headers: plan.headers }, (response) => {
      let seen = false;
      let failure = '';
      response.on('data', (chunk: Buffer) => {
        // Heading lines of a stream come before the model has said anything.
        if (!seen && saysSomething(chunk)) firstBytes.push(performance.now() - started);
        seen ||= saysSomething(chunk);
        if (response.statusCode !== 200) failure += chunk.toString('utf8');
      });
      response.on('end', () => {
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode} ${failure}`));
        latencies.push(performance.now() - started);
        resolve();
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Words at the beginning of what the model server and bare.ts say, and of what the offline model does. */
function saysSomething(chunk: Buffer): boolean {
  return chunk.includes('word') || chunk.includes('river');
}
