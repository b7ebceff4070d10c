import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildPrompt } from '../../../src/harness/prompt.ts';
import type { ApprovalDecision, NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { emptyState, foldSession, grantKey, type SessionState } from '../../../src/session/state.ts';

const usage = fc.record({ input: fc.nat(1000), output: fc.nat(1000), cachedInput: fc.nat(1000) });
const step = fc.integer({ min: 1, max: 4 });
const callId = fc.constantFrom('call_1', 'call_2', 'call_3');
const requestId = fc.constantFrom('req_1', 'req_2');
const text = fc.string();
const tool = fc.constantFrom('bash', 'files');

/** Any event at any place: the fold must take whatever a log holds, also what no turn would write. */
const anyEvent: fc.Arbitrary<NewEvent> = fc.oneof(
  fc.record({ type: fc.constant('message-received' as const), data: fc.record({ messageId: fc.constant('msg_u'), text }) }),
  fc.record({ type: fc.constant('turn-started' as const), data: fc.record({ agent: fc.constant('main') }) }),
  fc.record({ type: fc.constant('reasoning-produced' as const), data: fc.record({ messageId: fc.constant('msg_r'), text, step }) }),
  fc.record({
    type: fc.constant('message-produced' as const),
    data: fc.record({ messageId: fc.constant('msg_a'), text, step, agent: fc.constant('main') }),
  }),
  fc.record({
    type: fc.constant('tool-called' as const),
    data: fc.record({ callId, tool, input: fc.record({ command: text }), step, stepUsage: usage }),
  }),
  fc.record({ type: fc.constant('tool-finished' as const), data: fc.record({ callId, tool, output: text, isError: fc.boolean() }) }),
  fc.record({
    type: fc.constant('approval-requested' as const),
    data: fc.record({
      requestId,
      callId,
      kind: fc.constant('tool_use' as const),
      tool,
      input: fc.constant({}),
      message: text,
      options: fc.constant<ApprovalDecision[]>(['approve_once', 'approve_session', 'deny']),
      pattern: fc.constantFrom('*', 'rm *'),
    }),
  }),
  fc.record({
    type: fc.constant('approval-resolved' as const),
    data: fc.record({ requestId, callId, decision: fc.constantFrom('approve_once' as const, 'approve_session' as const, 'deny' as const) }),
  }),
  fc.record({ type: fc.constant('turn-resumed' as const), data: fc.record({ agent: fc.constant('main') }) }),
  fc.record({ type: fc.constant('interrupt-requested' as const), data: fc.record({ reason: fc.constant('user' as const) }) }),
  fc.record({
    type: fc.constant('context-condensed' as const),
    data: fc.record({ throughSeq: fc.nat(40), summary: fc.option(text, { nil: null }) }),
  }),
  fc.record({
    type: fc.constant('turn-ended' as const),
    data: fc.record({ stopReason: fc.constant('end_turn' as const), usage, step, stepUsage: usage }),
  }),
  fc.record({ type: fc.constant('turn-failed' as const), data: fc.record({ code: fc.constant('broken_stream'), message: text, usage }) }),
);

const at = new Date(0);
const anyLog: fc.Arbitrary<StoredEvent[]> = fc
  .array(fc.tuple(anyEvent, fc.constantFrom('turn_1', 'turn_2')), { maxLength: 40 })
  .map((entries) => entries.flatMap(([event, turnId], index) => numberEvents([event], turnId, index + 1, at)));

test('folding a log in any pieces is folding it whole', () => {
  fc.assert(
    fc.property(anyLog, fc.array(fc.nat(40), { maxLength: 5 }), (log, cuts) => {
      const whole = foldSession(log);
      const state = emptyState();
      let from = 0;
      for (const cut of [...cuts.sort((left, right) => left - right), log.length]) {
        foldSession(log.slice(from, Math.max(from, cut)), state);
        from = Math.max(from, cut);
      }
      assert.deepEqual(state, whole);
    }),
    { numRuns: 500 },
  );
});

test('the fold keeps the place and the order of what the model may be shown', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const { seq, entries } = foldSession(log);
      assert.equal(seq, log.at(-1)?.seq ?? 0);
      const places = entries.map((entry) => entry.seq);
      assert.deepEqual(
        places,
        [...new Set(places)].sort((left, right) => left - right),
      );
      for (const entry of entries) assert.ok(log.some((event) => event.seq === entry.seq));
    }),
  );
});

test('the fold does not change the log it reads', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const before = JSON.stringify(log);
      foldSession(log);
      assert.equal(JSON.stringify(log), before);
    }),
  );
});

test('a prompt answers every call it shows, whatever the log left open', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const messages = buildPrompt(foldSession(log));
      messages.forEach((message, index) => {
        if (message.role !== 'assistant') return;
        const calls = message.parts.flatMap((part) => (part.type === 'tool-call' ? [part.callId] : []));
        if (calls.length === 0) return;
        const next = messages[index + 1];
        assert.equal(next?.role, 'tool');
        const answered = next?.role === 'tool' ? next.results.map((result) => result.callId) : [];
        for (const call of calls) assert.ok(answered.includes(call));
      });
    }),
  );
});

const turn = (...events: NewEvent[]): SessionState => foldSession(numberEvents(events, 'turn_1', 1, at));
const message: NewEvent = { type: 'message-received', data: { messageId: 'msg_1', text: 'hi' } };
const called = (id: string, inStep: number): NewEvent => ({
  type: 'tool-called',
  data: { callId: id, tool: 'bash', input: {}, step: inStep, stepUsage: { input: 10, output: 1, cachedInput: 0 } },
});
const asked: NewEvent = {
  type: 'approval-requested',
  data: {
    requestId: 'req_1',
    callId: 'call_1',
    kind: 'tool_use',
    tool: 'bash',
    input: {},
    message: 'May I?',
    options: ['approve_once', 'approve_session', 'deny'],
    pattern: 'rm *',
  },
};
const finished = (id: string): NewEvent => ({
  type: 'tool-finished',
  data: { callId: id, tool: 'bash', output: 'done', isError: false },
});
const noted: NewEvent = { type: 'message-received', data: { messageId: 'msg_2', text: 'psst', silent: true } };
const resolved = (decision: 'approve_once' | 'approve_session' | 'deny'): NewEvent => ({
  type: 'approval-resolved',
  data: { requestId: 'req_1', callId: 'call_1', decision },
});

test('an answer is bound to its call, and approve_session to its tool and pattern', () => {
  assert.deepEqual([...turn(message, called('call_1', 1), asked, resolved('approve_once')).grants], []);
  assert.deepEqual([...turn(message, called('call_1', 1), asked, resolved('approve_session')).grants], [grantKey('bash', 'rm *')]);
  const denied = turn(message, called('call_1', 1), asked, resolved('deny'));
  assert.deepEqual([[...denied.grants], denied.turn?.deniedRequestId], [[], 'req_1']);
  const forged = turn(message, called('call_1', 1), resolved('approve_session'));
  assert.deepEqual([...forged.grants], [], 'an answer to what was not asked grants nothing');
});

test('what was only noted in the middle of a turn is shown with the next message, and never between a call and its result', () => {
  const rolesOf = (...events: NewEvent[]) => buildPrompt(turn(...events)).map((shown) => (shown.role === 'user' ? shown.text : shown.role));
  const events = [message, called('call_1', 1), called('call_2', 1), finished('call_1'), noted, finished('call_2')];
  assert.deepEqual(rolesOf(...events), ['hi', 'assistant', 'tool']);
  assert.deepEqual(rolesOf(...events, message), ['hi', 'assistant', 'tool', 'psst', 'hi']);
});

test('the model is told who speaks, and which messages only inform it', () => {
  const context = [{ role: 'system' as const, text: 'Be brief.' }];
  const said: NewEvent = { type: 'message-received', data: { messageId: 'msg_9', text: 'Hello', participantName: 'Bo', context } };
  const heard: NewEvent = { type: 'message-received', data: { messageId: 'msg_8', text: 'psst', participantName: 'Al', silent: true } };
  assert.deepEqual(buildPrompt(turn(heard, said)), [
    { role: 'user', text: 'psst', name: 'Al', told: true },
    { role: 'user', text: '[system] Be brief.', told: true },
    { role: 'user', text: 'Hello', name: 'Bo' },
  ]);
});

test('a new step leaves the calls of the one before behind, and usage adds up', () => {
  const state = turn(message, called('call_1', 1), called('call_2', 2));
  assert.deepEqual(
    state.turn?.calls.map((call) => call.callId),
    ['call_2'],
  );
  assert.deepEqual(state.turn?.usage, { input: 20, output: 2, cachedInput: 0 });
});

test('a pause remembers what it settled', () => {
  const state = turn(message, called('call_1', 1), asked);
  assert.deepEqual(state.turn?.settledUsage, { input: 10, output: 1, cachedInput: 0 });
});

test('a handoff moves the turn', () => {
  const state = turn(message, called('call_1', 1), {
    type: 'tool-finished',
    data: { callId: 'call_1', tool: 'handoff', output: 'ok', isError: false, handoff: 'billing' },
  });
  assert.equal(state.turn?.agent, 'billing');
});
