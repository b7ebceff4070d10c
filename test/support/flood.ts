// Load that does not wait for answers, as that of many strangers does not, and load that does.
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';

export interface Target {
  url: string;
  key: string;
  body: string;
}

export interface FloodReport {
  sent: number;
  statuses: Record<string, number>;
  /** Answered with 200 while the flood went on. */
  servedInTime: number;
  /** Of the 200s. */
  p50: number;
  /** Answers of 503, as they came. */
  shed: { retryAfter: string | undefined; shouldRetry: string | undefined; text: string }[];
}

interface Answer {
  /** 0: the connection broke. */
  status: number;
  retryAfter: string | undefined;
  shouldRetry: string | undefined;
  text: string;
}

/** A server takes one new connection in each pass of its event loop: with more at once, it is the kernel that is flooded. */
const maxConnections = 4_000;

/** Sends at three times this rate, or at three times what turns out to be served when that is more, and waits for all answers. */
export async function pour(target: Target, capacity: number, seconds: number): Promise<FloodReport> {
  const agent = new Agent({ connections: maxConnections });
  const report: FloodReport = { sent: 0, statuses: {}, servedInTime: 0, p50: 0, shed: [] };
  const times: number[] = [];
  const answers: Promise<void>[] = [];
  const begun = performance.now();
  const take = (started: number, { status, ...rest }: Answer) => {
    const now = performance.now();
    report.statuses[status] = (report.statuses[status] ?? 0) + 1;
    if (status === 503) report.shed.push(rest);
    if (status !== 200) return;
    times.push(now - started);
    if (now < begun + seconds * 1000) report.servedInTime += 1;
  };
  for (let elapsed = 0; elapsed < seconds; elapsed = (performance.now() - begun) / 1000) {
    const due = 3 * Math.max(capacity * elapsed, report.servedInTime);
    for (; report.sent < due; report.sent += 1) {
      const started = performance.now();
      answers.push(post(target, agent).then((answer) => take(started, answer)));
    }
    await sleep(5);
  }
  await Promise.all(answers);
  await agent.destroy();
  return { ...report, p50: percentile(times, 0.5) };
}

/** One client per target, each sending again when it has its answer. Milliseconds of each, waiting after a refusal included. */
export async function carry(targets: Target[], signal: AbortSignal): Promise<number[]> {
  const agent = new Agent();
  const times: number[] = [];
  await Promise.all(
    targets.map(async (target) => {
      while (!signal.aborted) {
        const begun = performance.now();
        const { status, retryAfter, text } = await post(target, agent);
        if (status === 200) times.push(performance.now() - begun);
        else if (retryAfter === undefined) throw new Error(`${target.url}: ${status} ${text}`);
        else await sleep(Number(retryAfter) * 1000);
      }
    }),
  );
  await agent.destroy();
  return times;
}

async function post({ url, key, body }: Target, dispatcher: Agent): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  try {
    const response = await request(url, { method: 'POST', dispatcher, headers, body });
    const { 'retry-after': retryAfter, 'x-should-retry': shouldRetry } = response.headers;
    const text = await response.body.text();
    return { status: response.statusCode, retryAfter: retryAfter?.toString(), shouldRetry: shouldRetry?.toString(), text };
  } catch (error) {
    return { status: 0, retryAfter: undefined, shouldRetry: undefined, text: String(error) };
  }
}

export function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 100) / 100;
}
