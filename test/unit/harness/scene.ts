// What the tests of the loop have in common: a turn over a log, with a model that answers as it is told.
import assert from 'node:assert/strict';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { type ModelCall, ModelError, type ModelPart } from '../../../src/harness/model.ts';
import { valueLength } from '../../../src/harness/models/estimate-tokens.ts';
import { runTurn } from '../../../src/harness/run-turn.ts';
import type { Tool } from '../../../src/harness/tool.ts';
import { TurnAborted } from '../../../src/harness/turn-world.ts';
import { newId } from '../../../src/ids.ts';
import type { LiveFragment, MessageReceived, NewEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { foldSession } from '../../../src/session/state.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';

/** `TurnAborted` stops the turn at that point. */
type AnswerPart = ModelPart | ModelError | TurnAborted;

interface Scene {
  events: NewEvent[];
  /** What the model says each time it is asked; asked once more, it fails. */
  answers?: AnswerPart[][];
  recovered?: boolean;
  repeatable?: boolean;
  release?: unknown;
  /** The turn is interrupted there, when no model is being asked. */
  interruptedIn?: 'modelFor' | 'sleep';
}

export async function run({ events, answers = [], recovered = false, repeatable = false, release = {}, interruptedIn }: Scene) {
  const seen = {
    asked: [] as ModelCall[],
    ran: [] as unknown[],
    slept: [] as number[],
    shown: [] as LiveFragment[],
    added: [] as NewEvent[],
    points: [] as string[],
  };
  const tool: Tool = {
    name: 'bash',
    description: '',
    inputSchema: {},
    repeatable,
    problem: () => undefined,
    guards: () => false,
    subject: () => '',
    prompt: () => '',
    async run(input) {
      seen.ran.push(input);
      return { output: 'ran', isError: false };
    },
  };
  const stop = new AbortController();
  const model = {
    provider: 'offline',
    name: 'demo',
    contextLimit: 100_000,
    async *stream(call: ModelCall) {
      seen.asked.push({ ...call });
      for (const part of answers.shift() ?? assert.fail('the model is asked once more')) {
        if (part instanceof TurnAborted) stop.abort(part);
        if (part instanceof Error) throw part;
        if ('text' in part) call.received += part.text.length;
        if (part.type === 'tool-call') call.received += part.tool.length + valueLength(part.input);
        yield part;
      }
    },
  };
  const pass = (place: Scene['interruptedIn']) => {
    if (place !== interruptedIn) return;
    stop.abort(new TurnAborted('interrupted'));
    if (place === 'sleep') throw stop.signal.reason;
  };
  const world = {
    release: completeReleaseConfig(release),
    permissionMode: 'interactive' as const,
    modelFor: async () => {
      pass('modelFor');
      return model;
    },
    toolsFor: () => [tool],
    workspace: new MemoryWorkspace(),
    isWatched: () => true,
    newId,
    sleep: async (milliseconds: number) => {
      seen.slept.push(milliseconds);
      pass('sleep');
    },
  };
  const state = foldSession(numberEvents(events, 'turn_1', 1, new Date(0)));
  for await (const step of runTurn(state, world, stop.signal, recovered)) {
    if (step.type === 'live') {
      seen.shown.push(step.fragment);
      continue;
    }
    foldSession(numberEvents(step.events, 'turn_1', state.seq + 1, new Date(0)), state);
    seen.added.push(...step.events);
    seen.points.push(step.type);
  }
  assert.deepEqual(answers, [], 'the model is asked for all of it');
  return seen;
}

export const received = (text: string, more: Partial<MessageReceived> = {}): NewEvent => ({
  type: 'message-received',
  data: { messageId: newId('msg_'), text, ...more },
});
export const called = (callId: string): NewEvent => ({ type: 'tool-called', data: { callId, tool: 'bash', input: callId, step: 1 } });
export const finished = (callId: string, output = 'done'): NewEvent => ({
  type: 'tool-finished',
  data: { callId, tool: 'bash', output, isError: false },
});
export const text = (said: string): ModelPart => ({ type: 'text-delta', text: said });
export const thought = (said: string): ModelPart => ({ type: 'reasoning-delta', text: said });
export const call = (input: string): ModelPart => ({ type: 'tool-call', tool: 'bash', input });
export const finish: ModelPart = { type: 'finish', usage: { input: 100, output: 10, cachedInput: 0 } };
export const broken = new ModelError('broken_stream', 'offline', 'It broke off.');
