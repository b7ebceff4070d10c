import { setTimeout as delay } from 'node:timers/promises';
import type { WarmSessions, WarmState } from '../../instances/warm-sessions.ts';

const heartbeatMs = 2_000;
const maxMs = 60_000;

/** Warms the session if it is cold, and says `warming` at once and every 2 s, then `ready` or `error`. */
export async function* warmFrames(warm: WarmSessions, orgId: number, sessionId: string, signal: AbortSignal): AsyncGenerator<string> {
  const warming = warm.begin(orgId, sessionId);
  const until = performance.now() + maxMs;
  yield frame({ status: 'warming' });
  while (!signal.aborted) {
    if (warming.state.status !== 'warming') return yield frame(warming.state);
    if (performance.now() >= until) return yield frame({ status: 'error', message: 'The session did not become ready in 60 s.' });
    const isDone = await settlesWithin(heartbeatMs, warming.done, signal);
    if (!isDone) yield frame({ status: 'warming' });
  }
}

function frame(state: WarmState): string {
  return `event: warm\ndata: ${JSON.stringify(state)}\n\n`;
}

async function settlesWithin(milliseconds: number, work: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const stop = new AbortController();
  const timeout = delay(milliseconds, false, { signal: AbortSignal.any([stop.signal, signal]) }).catch(() => false);
  const isSettled = await Promise.race([work.then(() => true), timeout]);
  stop.abort();
  return isSettled;
}
