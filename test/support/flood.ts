// Two kinds of load: `sendFlood` sends at a fixed rate without waiting for answers, as many independent clients together do;
// `runClients` has clients that each wait for their answer.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

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
  /** Milliseconds, of the answers with 200. */
  p50: number;
  /** The answers with 503, in order. */
  shed: { retryAfter: string | undefined; shouldRetry: string | undefined; text: string }[];
}

interface Answer {
  /** 0: the connection broke. */
  status: number;
  retryAfter: string | undefined;
  shouldRetry: string | undefined;
  text: string;
}

/** Node accepts one new connection in each pass of its event loop: more at once would only fill the kernel's queue. */
const maxConnections = 4_000;

/** Sends at three times `capacity` (requests a second), or at three times what is really served if that is more; waits for all answers. */
export async function sendFlood(target: Target, capacity: number, seconds: number): Promise<FloodReport> {
  const sender = new Sender(target.url);
  const request = requestTo(target);
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
      answers.push(sender.send(request).then((answer) => take(started, answer)));
    }
    await sleep(5);
  }
  await Promise.all(answers);
  sender.close();
  return { ...report, p50: percentile(times, 0.5) };
}

/**
 * Runs one client for each target, which sends its next request when it has its answer, until the signal aborts. Returns the
 * milliseconds of each request that was served. After a refusal a client waits as long as `Retry-After` says.
 */
export async function runClients(targets: Target[], signal: AbortSignal): Promise<number[]> {
  const sender = new Sender(targets[0]?.url ?? '');
  const times: number[] = [];
  await Promise.all(
    targets.map(async (target) => {
      const request = requestTo(target);
      while (!signal.aborted) {
        const begun = performance.now();
        const { status, retryAfter, text } = await sender.send(request);
        if (status === 200) times.push(performance.now() - begun);
        else if (retryAfter === undefined) throw new Error(`${target.url}: ${status} ${text}`);
        else await sleep(Number(retryAfter) * 1000);
      }
    }),
  );
  sender.close();
  return times;
}

function requestTo({ url, key, body }: Target): string {
  const { host, pathname } = new URL(url);
  const head = [`POST ${pathname} HTTP/1.1`, `host: ${host}`, `authorization: Bearer ${key}`, 'content-type: application/json'];
  return `${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/**
 * Sends on connections that it keeps open, and opens one more when all are busy. It writes HTTP by hand because it shares the
 * processors with the flooded server: an HTTP client library takes four times as much CPU time.
 */
class Sender {
  private readonly host: string;
  private readonly port: number;
  private readonly connections = new Set<Socket>();
  private readonly idle: Socket[] = [];
  private readonly waiting: ((socket: Socket) => void)[] = [];

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.host = hostname;
    this.port = Number(port);
  }

  async send(request: string): Promise<Answer> {
    const socket = this.idle.pop() ?? (this.connections.size < maxConnections ? this.connect() : await this.nextFree());
    const answer = await exchange(socket, request);
    const next = this.waiting.shift();
    if (next !== undefined) next(socket.destroyed ? this.connect() : socket);
    else if (!socket.destroyed) this.idle.push(socket);
    return answer;
  }

  close(): void {
    for (const socket of this.connections) socket.destroy();
  }

  private connect(): Socket {
    const socket = connect({ host: this.host, port: this.port, noDelay: true }).setEncoding('latin1');
    this.connections.add(socket);
    // `close` follows every error.
    socket.on('error', () => undefined).once('close', () => this.forget(socket));
    return socket;
  }

  private forget(socket: Socket): void {
    this.connections.delete(socket);
    const place = this.idle.indexOf(socket);
    if (place !== -1) this.idle.splice(place, 1);
  }

  private nextFree(): Promise<Socket> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

/** Sends one request and reads its answer, which must have a `content-length`. */
function exchange(socket: Socket, request: string): Promise<Answer> {
  return new Promise((resolve) => {
    let received = '';
    const read = (chunk: string) => {
      received += chunk;
      const answer = readAnswer(received);
      if (answer !== undefined) finish(answer);
    };
    const breakOff = () => finish({ status: 0, retryAfter: undefined, shouldRetry: undefined, text: 'the connection broke' });
    const finish = (answer: Answer) => {
      socket.off('data', read).off('close', breakOff);
      resolve(answer);
    };
    socket.on('data', read).on('close', breakOff).write(request);
  });
}

function readAnswer(received: string): Answer | undefined {
  const bodyAt = received.indexOf('\r\n\r\n') + 4;
  if (bodyAt < 4) return undefined;
  const head = received.slice(0, bodyAt);
  const header = (name: string) => new RegExp(`^${name}: (.*)\r$`, 'im').exec(head)?.[1];
  const text = received.slice(bodyAt);
  if (text.length < Number(header('content-length'))) return undefined;
  return { status: Number(head.slice(9, 12)), retryAfter: header('retry-after'), shouldRetry: header('x-should-retry'), text };
}

export function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 100) / 100;
}
