import type { Worker } from 'node:cluster';
import { isRecord } from '../text/json.ts';

// The processes of `--workers` share a port, and each scrape reaches any one of them: with its own metrics alone, every counter would seem
// to fall and rise at random. So the worker that was asked asks the primary process, which asks every worker.
const askAll = 'metrics of all';
const askOne = 'metrics';
/** A worker that does not answer within this time is only counted. One that is out of CPU should; Prometheus waits for 10 s. */
const patienceMs = 5_000;

/** In a worker: answers the primary process. Returns a function that asks it for the metrics of all; concurrent calls share one answer. */
export function shareMetrics(own: () => Promise<string>): () => Promise<string> {
  let asked: PromiseWithResolvers<string> | undefined;
  process.on('message', async (message: unknown) => {
    if (message === askOne) send({ metrics: await own().catch(() => '') });
    if (!isRecord(message) || !Array.isArray(message.all)) return;
    asked?.resolve(mergeFamilies(message.all));
    asked = undefined;
  });
  return () => {
    // A worker that is closing has disconnected from the primary process.
    if (!process.connected) return own();
    if (asked === undefined) {
      asked = Promise.withResolvers();
      send(askAll);
    }
    return asked.promise;
  };
}

function send(message: unknown): void {
  if (process.connected) process.send?.(message);
}

/** In the primary process: answers a worker that asks for the metrics of all. Of `count` workers, those that cannot start are silent too. */
export function answerMetrics(worker: Worker, workers: ReadonlySet<Worker>, count: number): void {
  worker.on('message', async (message: unknown) => {
    if (message !== askAll) return;
    const answers = await Promise.all([...workers].map(metricsOf));
    const all = answers.filter((answer) => answer !== '');
    if (worker.isConnected()) worker.send({ all: [...all, countSilent(Math.max(0, count - all.length))] });
  });
}

function countSilent(count: number): string {
  return `# HELP parley_workers_silent Processes of --workers that do not answer
# TYPE parley_workers_silent gauge
parley_workers_silent ${count}
`;
}

/** Empty if the worker does not answer, or is ending. */
async function metricsOf(worker: Worker): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const listen = (message: unknown) => {
    if (isRecord(message) && typeof message.metrics === 'string') resolve(message.metrics);
  };
  const leave = () => resolve('');
  const timer = setTimeout(leave, patienceMs);
  worker.on('message', listen).on('disconnect', leave);
  if (worker.isConnected()) worker.send(askOne);
  else leave();
  const text = await promise;
  clearTimeout(timer);
  worker.off('message', listen).off('disconnect', leave);
  return text;
}

/** In Prometheus' format, all samples of a metric follow its one pair of HELP and TYPE lines. */
function mergeFamilies(texts: string[]): string {
  const families = new Map<string, string[]>();
  for (const family of texts.flatMap((text) => text.trim().split('\n\n'))) {
    const [help = '', type = '', ...samples] = family.split('\n');
    const header = `${help}\n${type}`;
    families.set(header, [...(families.get(header) ?? []), ...samples]);
  }
  families.delete('\n');
  return [...families].map(([header, samples]) => `${[header, ...samples].join('\n')}\n`).join('\n');
}
