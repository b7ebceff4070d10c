import { subAgentOf } from '../release-config.ts';
import type { ApprovalRequested, NewEvent, StopReason } from '../session/events.ts';
import type { CallState, SessionState, TurnState } from '../session/state.ts';
import { addUsage, noUsage, type Usage } from '../session/usage.ts';
import { storable } from '../text/storable.ts';
import { condense } from './condense.ts';
import type { Answer } from './draft.ts';
import { ModelError } from './model.ts';
import { decidePermission } from './permissions.ts';
import { streamAnswer } from './stream-answer.ts';
import { recordedOutput, type Tool, type ToolOutcome } from './tool.ts';
import { maxTurnCharacters, turnLength } from './turn-length.ts';
import { BrokenAnswer, type CommitPoint, type ModelStep, TurnAborted, type TurnRun, type TurnWorld, type TurnYield } from './turn-world.ts';

/**
 * Runs the turn of the state until it ends or pauses. After an approval or a crash the turn is continued by running it again over the
 * log: `recovered` says that an earlier run may have died in the middle, so a tool call without a result may have been carried out.
 */
export async function* runTurn(
  state: SessionState,
  world: TurnWorld,
  signal: AbortSignal,
  recovered: boolean,
): AsyncGenerator<TurnYield, void, void> {
  const turn = state.turn;
  if (turn === undefined) throw new Error('the session has no turn to run');
  const run: TurnRun = { state, turn, world, signal };
  try {
    let mayHaveBegun = recovered;
    for (;;) {
      for (const call of turn.calls.filter((candidate) => !candidate.finished)) {
        if (forcedEnd(run) !== undefined) break;
        const point = await settleCall(run, call, mayHaveBegun);
        yield point;
        if (point.type === 'pause') return;
        mayHaveBegun = false;
      }
      // Calls that the model requests from here on cannot have begun in an earlier run.
      mayHaveBegun = false;
      const end = forcedEnd(run) ?? endAfterLastStep(run);
      if (end !== undefined) {
        yield end;
        return;
      }
      const agent = subAgentOf(world.release, turn.agent);
      const model = await world.modelFor(agent, turn.message?.onOwnKeys ?? false);
      const step = { ...run, agent, model, tools: world.toolsFor(agent) };
      yield* condense(step);
      const answer = yield* answerOrCondense(step);
      if (answer === undefined) continue;
      const last = answer.interrupted ? 'interrupted' : answer.calls.length === 0 ? 'end_turn' : undefined;
      if (last !== undefined) {
        yield { type: 'end', events: [...answer.events, ended(turn, last, answer.usage, answer.step)] };
        return;
      }
      yield { type: 'commit', events: [...answer.events, ...callEvents(answer)] };
    }
  } catch (error) {
    const { events, usage, cause } = error instanceof BrokenAnswer ? error : { events: [], usage: noUsage, cause: error };
    const charged = { ...turn, usage: addUsage(turn.usage, usage) };
    if (wasInterrupted(signal)) yield interruptedEnd(charged, events);
    else if (cause instanceof ModelError) yield { type: 'end', events: [...events, failed(charged, cause)] };
    else throw error;
  }
}

/** The end of a turn that may do nothing more; undefined if it may go on. */
function forcedEnd({ state, turn, signal }: TurnRun): CommitPoint | undefined {
  if (isInterrupted(turn, signal)) return interruptedEnd(turn);
  return turnLength(state) > maxTurnCharacters ? tooLongEnd(turn) : undefined;
}

function endAfterLastStep({ turn, world }: TurnRun): CommitPoint | undefined {
  if (turn.step < world.release.limits.max_steps) return undefined;
  return { type: 'end', events: [ended(turn, 'max_steps', noUsage)] };
}

/** The model's answer. Undefined if the conversation was too long for the model and has been condensed: then it is to be asked again. */
async function* answerOrCondense(step: ModelStep): AsyncGenerator<TurnYield, Answer | undefined, void> {
  try {
    return yield* streamAnswer(step);
  } catch (error) {
    const cause = error instanceof BrokenAnswer ? error.cause : error;
    if (!(cause instanceof ModelError && cause.code === 'context_length_exceeded')) throw error;
    if (error instanceof BrokenAnswer) yield { type: 'commit', events: error.events };
    if (!(yield* condense(step, true))) throw cause;
    return undefined;
  }
}

/** Whether the turn is to end as interrupted. Throws the signal's reason if it was aborted for another one. */
function isInterrupted(turn: TurnState, signal: AbortSignal): boolean {
  if (wasInterrupted(signal)) return true;
  if (signal.aborted) throw signal.reason;
  return turn.interrupted;
}

function wasInterrupted({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof TurnAborted && reason.why === 'interrupted';
}

/** What to store next for a tool call: its result after running it, why it did not run, or the approval that it needs. */
async function settleCall({ state, turn, world, signal }: TurnRun, call: CallState, mayHaveBegun: boolean): Promise<CommitPoint> {
  const tools = world.toolsFor(subAgentOf(world.release, call.agent));
  const tool = tools.find((candidate) => candidate.name === call.tool);
  if (tool === undefined) return refuse(call, `There is no tool named ${call.tool}.`);
  const decision = call.approval?.decision;
  if (decision === 'deny') return refuse(call, 'The user denied this action. Continue without it.', 'denied');
  if (decision === undefined) {
    const mode = turn.message?.unattended && world.permissionMode === 'interactive' ? 'locked' : world.permissionMode;
    const permission = decidePermission(tool, call.input, world.release.permissions.rules, state.grants, mode);
    if (permission.action === 'deny') return refuse(call, 'This action is not permitted for this agent. Continue without it.', 'denied');
    if (permission.action === 'ask') {
      const problem = tool.problem(call.input);
      return problem === undefined ? ask(world.newId('req_'), call, tool, permission.pattern, turn) : refuse(call, problem);
    }
  }
  if (mayHaveBegun && !tool.repeatable)
    return refuse(call, 'The process stopped while this call ran. Its outcome is unknown; it was not run again.', 'unknown');
  return finish(call, await tool.run(call.input, { workspace: world.workspace, signal }));
}

function ask(requestId: string, call: CallState, tool: Tool, pattern: string, { usage, agent }: TurnState): CommitPoint {
  const request: ApprovalRequested = {
    requestId,
    callId: call.callId,
    kind: 'tool_use',
    tool: tool.name,
    input: call.input,
    message: storable(tool.prompt(call.input)),
    options: ['approve_once', 'approve_session', 'deny'],
    pattern,
    usage,
    agent,
  };
  return { type: 'pause', events: [{ type: 'approval-requested', data: request }], request };
}

function refuse(call: CallState, output: string, notRun?: 'denied' | 'unknown'): CommitPoint {
  return finish(call, { output, isError: true }, notRun);
}

function finish(call: CallState, outcome: ToolOutcome, notRun?: 'denied' | 'unknown'): CommitPoint {
  const event: NewEvent = {
    type: 'tool-finished',
    data: {
      callId: call.callId,
      tool: call.tool,
      output: recordedOutput(outcome.output),
      isError: outcome.isError,
      ...(notRun === undefined ? {} : { notRun }),
      ...(outcome.handoff === undefined ? {} : { handoff: outcome.handoff }),
    },
  };
  return { type: 'commit', events: [event], ...(outcome.changes === undefined ? {} : { changes: outcome.changes }) };
}

function interruptedEnd(turn: TurnState, said: readonly NewEvent[] = []): CommitPoint {
  return { type: 'end', events: [...said, ...interruptedCalls(turn), ended(turn, 'interrupted', noUsage)] };
}

function tooLongEnd(turn: TurnState): CommitPoint {
  const message = `The turn has produced more than ${maxTurnCharacters} characters, with its tool calls and their results.`;
  const failure: NewEvent = { type: 'turn-failed', data: { code: 'turn_too_long', message, usage: turn.usage } };
  return { type: 'end', events: [...interruptedCalls(turn), failure] };
}

/** Results for the calls that will not be finished, because every call must have a result. */
export function interruptedCalls(turn: TurnState): NewEvent[] {
  return turn.calls
    .filter((call) => !call.finished)
    .map((call) => ({
      type: 'tool-finished',
      data: { callId: call.callId, tool: call.tool, output: 'Interrupted before it finished.', isError: true, notRun: 'interrupted' },
    }));
}

function callEvents(answer: Answer): NewEvent[] {
  return answer.calls.map((call, index) => ({
    type: 'tool-called',
    data: { ...call, step: answer.step, ...(index === answer.calls.length - 1 ? { stepUsage: answer.usage } : {}) },
  }));
}

function failed(turn: TurnState, { code, message, provider, retryAfterSeconds }: ModelError): NewEvent {
  return {
    type: 'turn-failed',
    data: {
      code,
      message: storable(message),
      provider,
      usage: turn.usage,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    },
  };
}

function ended(turn: TurnState, stopReason: StopReason, stepUsage: Usage, step: number = turn.step): NewEvent {
  return {
    type: 'turn-ended',
    data: {
      stopReason,
      usage: addUsage(turn.usage, stepUsage),
      step,
      stepUsage,
      ...(turn.denied ? { denied: true } : {}),
      ...(turn.deniedRequestId === undefined ? {} : { deniedRequestId: turn.deniedRequestId }),
    },
  };
}
