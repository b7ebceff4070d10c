import type { Worker } from 'node:cluster';
import { isRecord } from '../json.ts';

// The processes of `--workers` share a port, and a scrape reaches any of them: from one alone, every counter would seem to fall and rise at
// random. The one that was asked asks the first process, which asks every worker.
const askAll = 'metrics of all';
const askOne = 'metrics';
/** One that is starting, hangs or cannot read its own is left out. */
const patienceMs = 1_000;

/** In a worker: answers the first process, and gives a function that asks it for the metrics of all. Those that ask at the same time share one answer. */
export function shareMetrics(own: () => Promise<string>): () => Promise<string> {
  let asked: PromiseWithResolvers<string> | undefined;
  process.on('message', async (message: unknown) => {
    if (message === askOne) tell({ metrics: await own().catch(() => '') });
    if (!isRecord(message) || !Array.isArray(message.all)) return;
    asked?.resolve(mergeFamilies(message.all));
    asked = undefined;
  });
  return () => {
    // A worker that is closing is on its own.
    if (!process.connected) return own();
    if (asked === undefined) {
      asked = Promise.withResolvers();
      tell(askAll);
    }
    return asked.promise;
  };
}

function tell(message: unknown): void {
  if (process.connected) process.send?.(message);
}

/** In the first process: answers a worker that asks for the metrics of all. */
export function answerMetrics(worker: Worker, workers: ReadonlySet<Worker>): void {
  worker.on('message', async (message: unknown) => {
    if (message !== askAll) return;
    const all = await Promise.all([...workers].map(metricsOf));
    if (worker.isConnected()) worker.send({ all });
  });
}

async function metricsOf(worker: Worker): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const listen = (message: unknown) => {
    if (isRecord(message) && typeof message.metrics === 'string') resolve(message.metrics);
  };
  const timer = setTimeout(() => resolve(''), patienceMs);
  worker.on('message', listen);
  if (worker.isConnected()) worker.send(askOne);
  else resolve('');
  const text = await promise;
  clearTimeout(timer);
  worker.off('message', listen);
  return text;
}

/** In Prometheus' format a metric is there once, with all its samples below its two lines of explanation. */
function mergeFamilies(texts: string[]): string {
  const families = new Map<string, string[]>();
  for (const family of texts.flatMap((text) => text.trim().split('\n\n'))) {
    const [help = '', type = '', ...samples] = family.split('\n');
    const explanation = `${help}\n${type}`;
    families.set(explanation, [...(families.get(explanation) ?? []), ...samples]);
  }
  families.delete('\n');
  return [...families].map(([explanation, samples]) => `${[explanation, ...samples].join('\n')}\n`).join('\n');
}
