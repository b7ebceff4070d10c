import type { PermissionMode, ReleaseConfig, SubAgentConfig } from '../release-config.ts';
import type { ApprovalRequested, LiveFragment, NewEvent } from '../session/events.ts';
import type { SessionState, TurnState } from '../session/state.ts';
import type { Usage } from '../session/usage.ts';
import type { Model } from './model.ts';
import type { StorableChange, Tool, Workspace } from './tool.ts';

/** Everything that a turn needs from outside of the harness. */
export interface TurnWorld {
  release: ReleaseConfig;
  permissionMode: PermissionMode;
  /**
   * `holdsNoCredits`: the turn was admitted without any, because the customer's own keys were to pay for it. Throws `ModelError` if it
   * would need some because a key was deleted meanwhile.
   */
  modelFor(agent: SubAgentConfig, holdsNoCredits: boolean): Promise<Model>;
  toolsFor(agent: SubAgentConfig): Tool[];
  workspace: Workspace;
  /** Whether anybody may be watching the text as it comes. */
  isWatched(): boolean;
  newId(prefix: 'msg_' | 'req_' | 'call_'): string;
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

/** A turn that is being run: `state` is that of its session, and `turn` is `state.turn`. */
export interface TurnRun {
  state: SessionState;
  turn: TurnState;
  world: TurnWorld;
  signal: AbortSignal;
}

/** A step of a turn: its sub-agent, the model that is called, and the tools that the model may use. */
export interface ModelStep extends TurnRun {
  agent: SubAgentConfig;
  model: Model;
  tools: readonly Tool[];
}

/**
 * `live` is shown and not stored. Any other yield is a commit point: before the generator is resumed, its events are stored and folded
 * into the state that it was given. After `pause` or `end` it is not resumed.
 */
export type TurnYield = { type: 'live'; fragment: LiveFragment } | CommitPoint;

export type CommitPoint =
  | { type: 'commit'; events: NewEvent[]; changes?: StorableChange[] }
  | { type: 'pause'; events: NewEvent[]; request: ApprovalRequested }
  | { type: 'end'; events: NewEvent[] };

/**
 * The model's answer broke off for good, after it had said something. That is stored together with the end of the turn: with a commit of
 * its own, a process that died between the two would leave a turn that asks the model again and says its beginning twice.
 */
export class BrokenAnswer extends Error {
  readonly events: NewEvent[];
  readonly usage: Usage;
  /** `cause` says why; `events` carry the `usage`. */
  constructor(cause: unknown, events: NewEvent[], usage: Usage) {
    super('the answer broke off', { cause });
    this.events = events;
    this.usage = usage;
  }
}

/** Why a turn's signal was aborted: somebody interrupted it, its time is up, or its process lets go of it for another to continue. */
export class TurnAborted extends Error {
  readonly why: 'interrupted' | 'timeout' | 'released';
  constructor(why: 'interrupted' | 'timeout' | 'released') {
    super(`turn ${why}`);
    this.why = why;
  }
}
