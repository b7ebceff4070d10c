// Load that does not wait for answers, as that of many strangers does not, and load that does.
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

/** One client per target, each sending again when it has its answer. Milliseconds of each, waiting after a refusal included. */
export async function carry(targets: Target[], signal: AbortSignal): Promise<number[]> {
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
 * Sends on connections that it keeps open, and opens one more while all are busy. By hand, since it runs on the cores that
 * the flooded server needs: a client library takes four times as much of them.
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
    // An error is always followed by this.
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

/** One request and its answer, which states its length: as much of HTTP as it takes to read this server. */
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
