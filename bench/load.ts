// The load generator, started as a process by measure.ts: keeps `clients` requests in flight for `seconds`, then prints a
// `LoadReport` as one line of JSON.
import { Agent, request } from 'node:http';
import { percentile } from '../test/support/flood.ts';

export interface LoadPlan {
  clients: number;
  /** Divided among the clients: client n sends to paths n, n + `clients`, n + 2 * `clients`, ... in turn. */
  paths: string[];
  url: string;
  headers: Record<string, string>;
  body: string;
  /** One body for each path, in place of `body`: for APIs where the body names the session. */
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
  for (let index = client; performance.now() < until; index = (index + plan.clients) % plan.paths.length)
    await send(plan.paths[index] ?? '', plan.bodies?.[index] ?? plan.body);
}

function send(path: string, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const outgoing = request(plan.url + path, { method: 'POST', agent, headers: plan.headers }, (response) => {
      let hasText = false;
      let failure = '';
      response.on('data', (chunk: Buffer) => {
        // A stream's first events, such as `step_start`, are sent before the model has answered: they do not count.
        if (!hasText && containsText(chunk)) {
          hasText = true;
          firstBytes.push(performance.now() - started);
        }
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

/** `word` is in the first chunk of upstream.ts and bare.ts, `river` in that of the offline model. */
function containsText(chunk: Buffer): boolean {
  return chunk.includes('word') || chunk.includes('river');
}
