import { setTimeout as delay } from 'node:timers/promises';
import type { WarmSessions, WarmState } from '../../instances/warm-sessions.ts';

const heartbeatMs = 2_000;
const longestMs = 60_000;

/** Begins to warm the session if it is cold. Sends `warming` at once and every 2 s, and `ready` or `error` at the end. */
export async function* warmFrames(warm: WarmSessions, orgId: number, sessionId: string, signal: AbortSignal): AsyncGenerator<string> {
  const warming = warm.begin(orgId, sessionId);
  const until = performance.now() + longestMs;
  yield frame({ status: 'warming' });
  while (!signal.aborted) {
    if (warming.state.status !== 'warming') return yield frame(warming.state);
    if (performance.now() >= until) return yield frame({ status: 'error', message: 'The session did not become ready in 60 s.' });
    const settled = await settledOr(warming.done, heartbeatMs, signal);
    if (!settled) yield frame({ status: 'warming' });
  }
}

function frame(state: WarmState): string {
  return `event: warm\ndata: ${JSON.stringify(state)}\n\n`;
}

async function settledOr(settled: Promise<void>, milliseconds: number, signal: AbortSignal): Promise<boolean> {
  const stop = new AbortController();
  const pause = delay(milliseconds, false, { signal: AbortSignal.any([stop.signal, signal]) }).catch(() => false);
  const first = await Promise.race([settled.then(() => true), pause]);
  stop.abort();
  return first;
}
