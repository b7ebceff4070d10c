// Whatever breaks off, and whenever somebody comes and looks: at the end of the turn everybody has been shown what the log has of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { ModelError, type ModelPart } from '../../../src/harness/model.ts';
import { runTurn } from '../../../src/harness/run-turn.ts';
import { newId } from '../../../src/ids.ts';
import { isStored, type NewEvent, type StoredEvent } from '../../../src/session/events.ts';
import { Feed } from '../../../src/session/feed.ts';
import { Follower } from '../../../src/session/follow.ts';
import { numberEvents, type SessionLog } from '../../../src/session/log.ts';
import { foldSession } from '../../../src/session/state.ts';
import { type NativeFrame, NativeProjector } from '../../../src/surfaces/native/project.ts';
import { collectTurn } from '../../../src/turn/collect.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';

/** One answer of the model, or as much of it as came before the stream broke or the process died. */
const attempt = fc.record({
  thoughts: fc.array(fc.constantFrom('r', 'R', 'rr '), { maxLength: 2 }),
  words: fc.array(fc.constantFrom('a', 'b', 'ab '), { maxLength: 3 }),
  calls: fc.boolean(),
  ending: fc.constantFrom('whole', 'breaks', 'dies'),
});
type Attempt = typeof attempt extends fc.Arbitrary<infer Value> ? Value : never;

const death = new Error('the process has died');

/** Comes before the turn has done so many things, and looks after those that are marked. */
const visit = fc.record({ comes: fc.nat(12), looks: fc.array(fc.boolean(), { maxLength: 12 }) });

class Watcher {
  private readonly follower: Follower;
  private readonly projector = new NativeProjector();
  private readonly steps = new Map<number, { text: string; reasoning: string }>();
  private readonly previews = new Map<string, string>();
  private step = { text: '', reasoning: '' };

  constructor(feed: Feed, log: Pick<SessionLog, 'readPage' | 'exists'>) {
    this.follower = new Follower(log as SessionLog, feed.subscribe('ses_1', true), 0, true);
  }

  async look(): Promise<void> {
    for (let updates = await this.follower.read(); updates !== undefined; updates = await this.follower.read()) {
      for (const update of updates) {
        if (!isStored(update)) this.previews.set(update.messageId, (this.previews.get(update.messageId) ?? '') + update.text);
        else if (update.type === 'message-produced') this.checkPreview(update.data.messageId, update.data.text);
        for (const frame of this.projector.project(update)) this.show(frame);
      }
    }
  }

  has(part: 'text' | 'reasoning'): string {
    return [...this.steps.values()].map((step) => step[part]).join('');
  }

  private show({ type, data }: NativeFrame): void {
    if (type === 'step_start') {
      this.step = { text: '', reasoning: '' };
      this.steps.set(Number(data.step), this.step);
    }
    if (type === 'text' || type === 'reasoning') this.step[type] += (data.part as { text: string }).text;
  }

  private checkPreview(messageId: string, text: string): void {
    assert.equal(this.previews.get(messageId) ?? text, text, 'the deltas of a message add up to it');
  }
}

async function* partsOf({ thoughts, words, calls, ending }: Attempt): AsyncGenerator<ModelPart> {
  for (const text of thoughts) yield { type: 'reasoning-delta', text };
  if (thoughts.length > 0) yield { type: 'reasoning-end' };
  for (const [index, text] of words.entries()) {
    const isLast = ending === 'whole' && !calls && index === words.length - 1;
    yield { type: 'text-delta', text, ...(isLast ? { isLast } : {}) };
  }
  if (ending === 'breaks') throw new ModelError('broken_stream', 'offline', 'It broke off.');
  if (ending === 'dies') throw death;
  if (calls) yield { type: 'tool-call', tool: 'none', input: {} };
  yield { type: 'finish', usage: { input: 1, output: 1, cachedInput: 0 } };
}

async function watch(attempts: Attempt[], visits: { comes: number; looks: boolean[] }[]) {
  const log: StoredEvent[] = [];
  const feed = new Feed();
  const add = (events: NewEvent[]) => {
    const stored = numberEvents(events, 'turn_1', log.length + 1, new Date(0));
    log.push(...stored);
    feed.publish('ses_1', stored);
    return stored;
  };
  const reading = {
    readPage: async (_id: string, after: number) => ({ events: log.slice(after), hasMore: false }),
    exists: async () => true,
  };
  add([
    { type: 'message-received', data: { messageId: 'msg_u', text: 'hi', thinking: true } },
    { type: 'turn-started', data: { agent: 'main' } },
  ]);
  const left = [...attempts];
  const last: Attempt = { thoughts: ['r'], words: ['ab ', 'b'], calls: false, ending: 'whole' };
  const world = {
    release: completeReleaseConfig({}),
    permissionMode: 'autonomous' as const,
    modelFor: async () => ({ provider: 'offline', name: 'demo', contextLimit: 100_000, stream: () => partsOf(left.shift() ?? last) }),
    toolsFor: () => [],
    workspace: new MemoryWorkspace(),
    isWatched: () => true,
    newId,
    sleep: async () => {},
  };
  const watchers = new Map<number, Watcher>();
  let done = 0;
  const visitAll = async () => {
    for (const [index, { comes, looks }] of visits.entries()) {
      if (done === comes) watchers.set(index, new Watcher(feed, reading));
      if (looks[done]) await watchers.get(index)?.look();
    }
    done += 1;
  };
  while (log.at(-1)?.type !== 'turn-ended' && log.at(-1)?.type !== 'turn-failed') {
    const state = foldSession(log);
    try {
      for await (const step of runTurn(state, world, new AbortController().signal, done > 0)) {
        if (step.type === 'live') feed.publish('ses_1', [step.fragment]);
        else foldSession(add(step.events), state);
        await visitAll();
      }
    } catch (error) {
      // Another process takes the turn over.
      if (error !== death) throw error;
    }
    feed.dropDrafts('ses_1');
  }
  for (const watcher of watchers.values()) await watcher.look();
  return { log, watchers: [...watchers.values()] };
}

test('whoever comes to a turn at whatever moment ends with its text and, unless it failed, its thoughts, and with no others', async () => {
  const property = fc.asyncProperty(
    fc.array(attempt, { maxLength: 6 }),
    fc.array(visit, { minLength: 1, maxLength: 4 }),
    async (...given) => {
      const { log, watchers } = await watch(...given);
      const { text, parts, failed } = await collectTurn(
        (async function* () {
          yield log;
        })(),
      );
      const thoughts = parts.flatMap((part) => (part.type === 'reasoning' ? [part.text] : [])).join('');
      for (const watcher of watchers) {
        assert.equal(watcher.has('text'), text);
        if (failed === undefined) assert.equal(watcher.has('reasoning'), thoughts);
      }
    },
  );
  await fc.assert(property, { numRuns: Number(process.env.FC_RUNS ?? '400') });
});
