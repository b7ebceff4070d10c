// Whatever is posted and wherever streams break off, every reader puts the same log together.
// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { startApp } from '../../support/app.ts';
import { type Entry, ManagedClient } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);

const message = fc.constantFrom(
  '/say short',
  '/words 12',
  '/think first\n/say then',
  '/tool files {"operation":"list"}',
  '/tool bash {"command":"echo hi"}',
  '/tool bash {"command":"echo a"}\n/tool bash {"command":"echo b"}',
  '/fail broken_stream',
  '/delay 3\n/words 8',
);
const action = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('message' as const), text: message }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('answer' as const), result: fc.constantFrom('allow', 'approve_session', 'deny') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('interrupt' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wrong answer' as const) }) },
);
const reader = fc.record({
  /** After how many frames each connection is dropped; then it comes back with its cursor. */
  drops: fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 8 }),
  deltas: fc.boolean(),
  cursor: fc.constantFrom('after', 'header', 'both'),
});

test('random user events and random drops always reconstruct the same log', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { minLength: 1, maxLength: 10 }),
      fc.array(reader, { minLength: 1, maxLength: 3 }),
      async (actions, readers) => {
        const id = await client.create({ prewarm: false });
        const stop = new AbortController();
        const copies = readers.map((plan) => readWithDrops(id, plan, stop.signal));
        for (const step of actions) await act(id, step);
        const events = await settle(id);
        const last = events.at(-1)?.seq ?? 0;
        const logs = await Promise.all(copies.map((copy) => copy.upTo(last)));
        stop.abort();
        assert.deepEqual(
          events.map((entry) => entry.seq),
          events.map((_, index) => index + 1),
        );
        for (const log of logs) assert.deepEqual(log, events);
        assertTurnsEndOnce(events);
      },
    ),
    { numRuns: Number(process.env.FC_RUNS ?? '25') },
  );
});

async function act(id: string, step: { do: string; text?: string; result?: string }): Promise<void> {
  if (step.do === 'message') assert.equal((await client.post(id, { type: 'user.message', text: step.text })).status, 202);
  else if (step.do === 'interrupt') assert.equal((await client.post(id, { type: 'user.interrupt' })).status, 202);
  else if (step.do === 'wrong answer') {
    const answer = await client.post(id, { type: 'user.tool_confirmation', request_id: 'req_nothing', result: 'deny' });
    assert.equal(answer.status, 409);
  } else {
    const pending = pendingRequest((await client.state(id)).events);
    if (pending === undefined) return;
    const answer = await client.post(id, { type: 'user.tool_confirmation', request_id: pending, result: step.result });
    // Nobody else answers, but an interrupt may have withdrawn the question.
    assert.ok(answer.status === 202 || answer.status === 409);
  }
}

/** Answers what is still asked, until nothing runs and nothing waits. */
async function settle(id: string): Promise<Entry[]> {
  const until = Date.now() + 20_000;
  while (Date.now() < until) {
    const { status, events } = await client.state(id);
    const pending = pendingRequest(events);
    if (pending !== undefined) await client.post(id, { type: 'user.tool_confirmation', request_id: pending, result: 'deny' });
    else if (status === 'idle') return events;
    else await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('the session did not come to rest');
}

function pendingRequest(events: Entry[]): string | undefined {
  const last = events.at(-1);
  return last?.stop_reason === 'requires_action' ? String(last.request_id) : undefined;
}

function readWithDrops(id: string, plan: { drops: number[]; deltas: boolean; cursor: string }, signal: AbortSignal) {
  const log: Entry[] = [];
  let notify = () => {};
  void (async () => {
    for (let connection = 0; !signal.aborted; connection += 1) {
      const cursor = log.at(-1)?.seq ?? 0;
      // A browser repeats its first URL and adds the header.
      const query = plan.cursor === 'after' ? cursor : 0;
      const headers: Record<string, string> = plan.cursor === 'after' ? {} : { 'last-event-id': String(cursor) };
      const stream = await client.follow(id, `?after=${query}&deltas=${plan.deltas}`, headers);
      const stop = () => stream.leave();
      signal.addEventListener('abort', stop, { once: true });
      let left = plan.drops[connection] ?? Number.POSITIVE_INFINITY;
      for await (const frame of stream) {
        if (left <= 0) break;
        left -= 1;
        if (frame.data.seq !== undefined) log.push(frame.data);
        notify();
      }
      signal.removeEventListener('abort', stop);
      stream.leave();
    }
  })().catch(() => notify());
  return {
    async upTo(last: number): Promise<Entry[]> {
      const until = Date.now() + 10_000;
      while ((log.at(-1)?.seq ?? 0) < last && Date.now() < until) {
        await new Promise<void>((resolve) => {
          notify = resolve;
          setTimeout(resolve, 200);
        });
      }
      return [...log];
    },
  };
}

/** Every turn ends with exactly one terminal event, which is its last. */
function assertTurnsEndOnce(events: Entry[]): void {
  for (const [turnId, entries] of Map.groupBy(events, (entry) => String(entry.turn_id))) {
    const ends = entries.filter(
      (entry) => entry.type === 'session.error' || (entry.type === 'session.status_idle' && entry.stop_reason !== 'requires_action'),
    );
    assert.equal(ends.length, 1, `${turnId} has ${ends.length} ends`);
    assert.equal(entries.at(-1), ends[0]);
    assert.equal(entries[0]?.type, 'user.message');
  }
}
