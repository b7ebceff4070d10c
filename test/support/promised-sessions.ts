// Records what the server acknowledged to clients about their sessions, and checks afterwards that the log has it.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LogEntry, Wire } from './wire.ts';

const patienceMs = 60_000;
/** How long a client waits after a refusal or a break: retries without a pause would take CPU time from the server that is starting. */
export const pauseMs = 200;

/** One session: the messages that were acknowledged, and the answers that the client got. */
export class Promised {
  readonly id: string;
  readonly agent: string;
  wasApproved = false;
  /** Acknowledged messages, with the answer where the client got one. */
  readonly texts = new Map<string, string | undefined>();
  /** What the follower has received of the log. */
  readonly seen: LogEntry[] = [];
  private readonly wire: () => Wire;
  private isOver = false;
  private leave: () => void = () => {};
  private following: Promise<void> | undefined;

  constructor(wire: () => Wire, id: string, agent: string) {
    this.wire = wire;
    this.id = id;
    this.agent = agent;
  }

  /** Records that the message was acknowledged and, if there is an answer, that the client got it. */
  promise(text: string, answer?: string): void {
    this.texts.set(text, answer);
  }

  /** Follows the log from now on. After every break it reconnects and continues after the last entry that it received. */
  follow(): void {
    this.following = (async () => {
      while (!this.isOver) {
        const abort = new AbortController();
        this.leave = () => abort.abort();
        const timer = setTimeout(this.leave, 2_000);
        try {
          const entries = this.wire().follow(this.agent, this.id, this.seen.at(-1)?.seq ?? 0, abort.signal);
          for await (const entry of entries) if (entry.type !== 'stream.closed') this.seen.push(entry);
        } catch {
          // The connection broke, or the timer above ended it: the next round reconnects.
        }
        clearTimeout(timer);
        await sleep(pauseMs);
      }
    })();
  }

  abandon(): void {
    this.isOver = true;
  }

  /** Waits until the session is idle, then checks that its log has everything that was acknowledged. */
  async check(runs: Map<string, number>): Promise<LogEntry[]> {
    const log = await this.settled();
    const where = `${this.id}: ${JSON.stringify(log.slice(-6))}`;
    assert.deepEqual(
      log.map((entry) => entry.seq),
      log.map((_entry, index) => index + 1),
      `a gap or a duplicate in ${where}`,
    );
    const of = (type: string) => log.filter((entry) => entry.type === type);
    const messages = of('user.message').map((entry) => String(entry.text));
    assert.equal(new Set(messages).size, messages.length, `a message is there twice in ${where}`);
    const said = new Set(of('agent.message').map((entry) => entry.text));
    for (const [text, answer] of this.texts) {
      assert.ok(messages.includes(text), `${this.id}: "${text}" was acknowledged and is gone`);
      if (answer !== undefined) assert.ok(said.has(answer), `${this.id}: the answer "${answer}" was given and is gone`);
    }
    const isEnd = (entry: LogEntry) =>
      entry.type === 'session.error' || (entry.type === 'session.status_idle' && entry.stop_reason !== 'requires_action');
    if (this.wasApproved || this.agent === 'assistant')
      assert.equal(log.filter(isEnd).length, messages.length, `a turn without one end in ${where}`);
    this.checkTools(log, runs);
    await this.checkFollower(log);
    return log;
  }

  private checkTools(log: LogEntry[], runs: Map<string, number>): void {
    const calls = log.filter((entry) => entry.type === 'agent.tool_use');
    const results = log.filter((entry) => entry.type === 'agent.tool_result');
    if (this.wasApproved)
      assert.deepEqual(
        results.map((entry) => entry.tool_use_id),
        calls.map((entry) => entry.tool_use_id),
        `${this.id}: every call has one result`,
      );
    for (const { output, tool_use_id: id } of results) {
      const call = calls.find((entry) => entry.tool_use_id === id);
      const marker = (call?.input as { marker?: string } | undefined)?.marker ?? '';
      if (!/unknown/.test(String(output))) assert.equal(runs.get(marker), 1, `${this.id}: a result without a run: ${output}`);
    }
  }

  /** The follower must have received the whole log, each entry once. */
  private async checkFollower(log: LogEntry[]): Promise<void> {
    if (this.following === undefined) return;
    for (const until = Date.now() + 10_000; this.seen.length < log.length && Date.now() < until; ) await sleep(20);
    this.isOver = true;
    this.leave();
    await this.following;
    assert.deepEqual(this.seen, log, `a follower of ${this.id} missed or repeated something`);
  }

  private async settled(): Promise<LogEntry[]> {
    const path = `/demo/${this.agent}/v1/managed-agents/sessions/${this.id}`;
    let last = '';
    for (const until = Date.now() + patienceMs; Date.now() < until; await sleep(50)) {
      const answer = await this.wire()
        .get(path)
        .catch(() => undefined);
      last = answer?.text ?? '';
      if (answer?.status === 200 && answer.body.status === 'idle') return answer.body.events;
    }
    throw new Error(`${this.id} did not come to rest: ${last.slice(-800)}`);
  }
}

export class PromisedSessions {
  private readonly wire: () => Wire;
  private readonly sessions = new Map<string, Promised>();

  constructor(wire: () => Wire) {
    this.wire = wire;
  }

  add(id: string, agent = 'assistant'): Promised {
    const promised = new Promised(this.wire, id, agent);
    this.sessions.set(id, promised);
    return promised;
  }

  abandon(): void {
    for (const promised of this.sessions.values()) promised.abandon();
  }

  ids(): string[] {
    return [...this.sessions.keys()];
  }

  /** Checks every session. Returns the ids of the turns that ended, and the sum of their tokens according to the log. */
  async check(runs: Map<string, number>): Promise<{ turns: string[]; tokens: number }> {
    const turns: string[] = [];
    let tokens = 0;
    for (const promised of this.sessions.values()) {
      const log = await promised.check(runs);
      for (const { type, stop_reason: reason, turn_id: turn, usage } of log) {
        if (type !== 'session.error' && type !== 'session.status_idle') continue;
        if (reason === 'requires_action') continue;
        turns.push(String(turn));
        tokens += (usage as { total_tokens: number } | undefined)?.total_tokens ?? 0;
      }
    }
    return { turns, tokens };
  }
}
