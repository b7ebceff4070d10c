import { sharedValue } from '../parts/shared-value.ts';

/** Whether the server can be reached. `back` lasts a few seconds after `lost`, so that the banner can say so. */
type Connection = 'ok' | 'lost' | 'back';

const connection = sharedValue<Connection>('ok');
let probing = false;
/** A request without a response for this long makes us ask `/readyz`, which must then answer within the same time. */
const silentMs = 5_000;
/** Aborted when the connection is lost, and replaced when it is back. */
let reachable = new AbortController();

/** A signal that aborts reads when the connection is lost: their responses might never come. They are repeated later. */
export function whileReachable(): AbortSignal {
  return reachable.signal;
}

/** A network can fail silently. When this request has no response for a while, checks whether the server can be reached. */
export async function watchForSilence<Answer>(request: Promise<Answer>): Promise<Answer> {
  const timer = setTimeout(() => void checkReachable(), silentMs);
  try {
    return await request;
  } finally {
    clearTimeout(timer);
  }
}

export function useConnection(): Connection {
  return connection.useValue();
}

/** Called when a request could not reach the server. Asks `/readyz` until it answers again. */
export function reportLost(): void {
  if (probing) return;
  probing = true;
  connection.write('lost');
  reachable.abort();
  void probe();
}

/** Called when the server may be away: a request had no response yet, or a 502 to 504, which can also concern it alone. */
export async function checkReachable(): Promise<void> {
  if (!probing && !(await isReachable())) reportLost();
}

/** Resolves when the server can be reached; at once, unless the connection is known to be lost. */
export async function untilReachable(): Promise<void> {
  while (connection.read() === 'lost') await sleep(200);
}

async function probe(): Promise<void> {
  for (let wait = 400; ; wait = Math.min(wait * 1.5, 3_000)) {
    await sleep(wait);
    if (await isReachable()) break;
  }
  probing = false;
  reachable = new AbortController();
  connection.write('back');
  await sleep(4_000);
  if (connection.read() === 'back') connection.write('ok');
}

/** Any status below 500 counts: a proxy that does not pass `/readyz` on answers it with a 404 of its own. */
async function isReachable(): Promise<boolean> {
  const signal = AbortSignal.timeout(silentMs);
  const response = await fetch('/readyz', { cache: 'no-store', signal }).catch(() => undefined);
  return response !== undefined && response.status < 500;
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
