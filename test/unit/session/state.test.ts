import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildPrompt } from '../../../src/harness/prompt.ts';
import type { ApprovalDecision, NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { emptyState, foldSession, type SessionState, type TurnState } from '../../../src/session/state.ts';

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

test('a prompt that has grown with its conversation is the one that would be built anew', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const grown = emptyState();
      for (const [index, event] of log.entries()) {
        foldSession([event], grown);
        if (event.type === 'message-received')
          assert.deepEqual(buildPrompt(grown), buildPrompt(foldSession(log.slice(0, index + 1))), `at ${index}`);
      }
    }),
  );
});

const turn = (...events: NewEvent[]): SessionState => foldSession(numberEvents(events, 'turn_1', 1, at));
const message = { type: 'message-received' as const, data: { messageId: 'msg_1', text: 'hi' } };
const none = { input: 0, output: 0, cachedInput: 0 };
const begun: TurnState = {
  id: 'turn_1',
  agent: '',
  message: message.data,
  step: 0,
  usage: none,
  settledUsage: none,
  usageOf: new Map(),
  calls: [],
  hasSpoken: false,
  interrupted: false,
  denied: false,
  deniedRequestId: undefined,
  ended: undefined,
  failure: undefined,
};
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
const noted: NewEvent = { type: 'message-received', data: { messageId: 'msg_2', text: 'psst', silent: true } };
const resolved = (decision: 'approve_once' | 'approve_session' | 'deny'): NewEvent => ({
  type: 'approval-resolved',
  data: { requestId: 'req_1', callId: 'call_1', decision },
});

test('an answer is bound to its call, and approve_session to its tool and pattern', () => {
  assert.deepEqual([...turn(message, called('call_1', 1), asked, resolved('approve_once')).grants], []);
  assert.deepEqual([...turn(message, called('call_1', 1), asked, resolved('approve_session')).grants], ['bash\nrm *']);
  const denied = turn(message, called('call_1', 1), asked, resolved('deny'));
  assert.deepEqual([[...denied.grants], denied.turn?.deniedRequestId], [[], 'req_1']);
  const forged = turn(message, called('call_1', 1), resolved('approve_session'));
  assert.deepEqual([...forged.grants], [], 'an answer to what was not asked grants nothing');
});

test('the fold has all that a turn needs to go on, and nothing of what another turn did', () => {
  const providerMetadata = { signature: 'abc' };
  const stepUsage = { input: 10, output: 1, cachedInput: 0 };
  const call = { callId: 'call_1', tool: 'bash', input: { command: 'ls' } };
  const log: NewEvent[] = [
    message,
    { type: 'turn-started', data: { agent: 'main' } },
    { type: 'reasoning-produced', data: { messageId: 'msg_2', text: 'Hm.', step: 1, providerMetadata } },
    { type: 'message-produced', data: { messageId: 'msg_3', text: 'Let me see.', step: 1, agent: 'main' } },
    { type: 'tool-called', data: { ...call, step: 1, stepUsage, providerMetadata } },
    asked,
    resolved('approve_session'),
    { type: 'tool-finished', data: { callId: 'call_1', tool: 'bash', output: 'No such file', isError: true, notRun: 'denied' } },
    { type: 'message-produced', data: { messageId: 'msg_4', text: '', step: 2, agent: 'main', stepUsage } },
    noted,
  ];
  const other: NewEvent[] = [called('call_9', 9), { type: 'interrupt-requested', data: { reason: 'user' } }];
  const state = foldSession([...numberEvents(log, 'turn_1', 1, at), ...numberEvents(other, 'turn_2', 11, at)]);
  assert.deepEqual(state, {
    seq: 12,
    entries: [
      { seq: 1, type: 'user', message: message.data },
      { seq: 3, type: 'reasoning', text: 'Hm.', providerMetadata },
      { seq: 4, type: 'text', text: 'Let me see.' },
      { seq: 5, type: 'call', ...call, providerMetadata },
      { seq: 8, type: 'result', callId: 'call_1', tool: 'bash', output: 'No such file', isError: true },
      { seq: 10, type: 'user', message: noted.data },
    ],
    summary: undefined,
    grants: new Set(['bash\nrm *']),
    turn: {
      ...begun,
      agent: 'main',
      step: 2,
      usage: { input: 20, output: 2, cachedInput: 0 },
      settledUsage: stepUsage,
      usageOf: new Map([['main', stepUsage]]),
      hasSpoken: true,
      denied: true,
    },
  });
  assert.deepEqual(turn(...log.slice(0, 7)).turn?.calls, [
    { ...call, agent: 'main', finished: false, approval: { requestId: 'req_1', pattern: 'rm *', decision: 'approve_session' } },
  ]);
  assert.deepEqual(turn(...log.slice(0, 4)).turn, { ...begun, agent: 'main', step: 1, hasSpoken: true });
  assert.deepEqual(turn(...log.slice(0, 3)).turn, { ...begun, agent: 'main', step: 1 });
});

test('the end of a turn has the sum of what it used, and a failure what it was', () => {
  const usage = { input: 30, output: 3, cachedInput: 5 };
  const end: NewEvent = { type: 'turn-ended', data: { stopReason: 'max_steps', usage, step: 1, stepUsage: usage } };
  assert.deepEqual(turn(message, end).turn, { ...begun, usage, ended: 'max_steps' });
  const failed: NewEvent = { type: 'turn-failed', data: { code: 'overloaded', message: 'Later.', provider: 'openai', usage } };
  const failure = { code: 'overloaded', provider: 'openai' };
  assert.deepEqual(turn(message, failed).turn, { ...begun, usage, ended: 'failed', failure });
});

test('what was condensed is left out up to the last of it, and the newest summary counts', () => {
  const condensed = (throughSeq: number, summary: string | null): NewEvent => ({
    type: 'context-condensed',
    data: { throughSeq, summary },
  });
  const state = turn(message, message, message, condensed(1, 'Ada likes tea.'));
  assert.deepEqual([state.entries.map(({ seq }) => seq), state.summary], [[2, 3], 'Ada likes tea.']);
  foldSession(numberEvents([condensed(2, null)], 'turn_1', 5, at), state);
  assert.deepEqual([state.entries.map(({ seq }) => seq), state.summary], [[3], undefined]);
});

test('a new step leaves the calls of the one before behind, and usage adds up', () => {
  const state = turn(message, called('call_1', 1), called('call_2', 2));
  assert.deepEqual(
    state.turn?.calls.map((call) => call.callId),
    ['call_2'],
  );
  const usage = { input: 20, output: 2, cachedInput: 0 };
  assert.deepEqual([state.turn?.usage, state.turn?.usageOf], [usage, new Map([['', usage]])]);
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
  assert.deepEqual([state.turn?.agent, state.turn?.denied], ['billing', false]);
});
