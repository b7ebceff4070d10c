import { timeOfId } from '../../ids.ts';
import {
  type ApprovalRequested,
  isStored,
  type RequestEcho,
  type SessionUpdate,
  type StoredEvent,
  type TurnFailed,
  usageIn,
} from '../../session/events.ts';
import { addUsage, noUsage, subtractUsage, type Usage, wireUsage } from '../../session/usage.ts';
import { CutShort } from '../../turn/collect.ts';
import { turnFailure } from '../../turn/failure.ts';
import { adapterFailureBody } from '../shared/adapters/errors.ts';
import type { DropSession } from '../shared/adapters/session.ts';
import { itemId, type ResponsePlace } from './response-ids.ts';

export type OutputItem =
  | { id: string; type: 'message'; status: 'completed' | 'incomplete'; role: 'assistant'; content: OutputText[] }
  | { id: string; type: 'mcp_approval_request'; server_label: string; name: string; arguments: string };

export type MessageItem = Extract<OutputItem, { type: 'message' }>;

export interface OutputText {
  type: 'output_text';
  text: string;
  annotations: never[];
}

export type ResponseStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed';

/** An approval request names the MCP server of its tool. The tools are the agent's own, so all have the same one. */
const serverLabel = 'parley';

/** Builds the response object from the stored events of its turn, for the stream, for a response in one piece and for a later fetch. */
export class ResponseAnswer {
  readonly place: ResponsePlace;
  readonly items: OutputItem[] = [];
  status: ResponseStatus = 'in_progress';
  failure: { code: string; message: string } | undefined;
  private readonly echo: RequestEcho;
  private readonly model: string;
  /** In milliseconds. A response that continues its turn has the time of the approval, once its event was applied. */
  private createdAt: number;
  private usage: Usage = noUsage;
  /** What the turn used before this response began. */
  private usageBefore: Usage = noUsage;
  private incompleteReason: string | undefined;

  constructor(place: ResponsePlace, model: string, echo: RequestEcho) {
    this.place = place;
    this.model = model;
    this.echo = echo;
    this.createdAt = timeOfId(place.turnId);
  }

  apply(event: StoredEvent): void {
    const usage = usageIn(event) ?? noUsage;
    if (event.seq <= this.place.after) {
      if (event.seq === this.place.after) this.createdAt = event.createdAt.getTime();
      this.usageBefore = addUsage(this.usageBefore, usage);
      return;
    }
    this.usage = addUsage(this.usage, usage);
    switch (event.type) {
      case 'message-produced':
        if (event.data.text !== '') this.addMessage(event.data.text, event.data.partial ?? false);
        return;
      case 'approval-requested':
        this.items.push(approvalItem(event.data));
        this.status = 'completed';
        return;
      case 'turn-ended': {
        // Clients expect at least one item: a turn that said nothing gets an empty message.
        if (this.items.length === 0) this.addMessage('', false);
        this.usage = subtractUsage(event.data.usage, this.usageBefore);
        this.status = event.data.stopReason === 'end_turn' ? 'completed' : 'incomplete';
        if (event.data.stopReason !== 'end_turn') this.incompleteReason = event.data.stopReason;
        return;
      }
      case 'turn-failed':
        this.usage = subtractUsage(event.data.usage, this.usageBefore);
        this.status = 'failed';
        this.failure = { code: event.data.code, message: event.data.message };
        return;
      default:
        return;
    }
  }

  /** The response object as of the last event. */
  body() {
    const { previousResponseId, metadata } = this.echo;
    return {
      id: this.place.responseId,
      object: 'response' as const,
      created_at: Math.floor(this.createdAt / 1000),
      status: this.status,
      model: this.echo.model ?? this.model,
      output: this.items,
      output_text: this.text(),
      usage: this.status === 'in_progress' ? null : responseUsage(this.usage),
      error: this.failure ?? null,
      incomplete_details: this.incompleteReason === undefined ? null : { reason: this.incompleteReason },
      tools: [],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      metadata: metadata ?? {},
      ...(previousResponseId === undefined ? {} : { previous_response_id: previousResponseId }),
    };
  }

  /**
   * The body of a failure after the status 200 has been sent. Client libraries see by the `status` that it is one; an object without
   * `output` they would return, or fail on for another reason.
   */
  lateFailure(error: unknown) {
    return { ...this.body(), status: 'failed' as const, ...adapterFailureBody(error) };
  }

  private text(): string {
    let text = '';
    for (const item of this.items) if (item.type === 'message') for (const part of item.content) text += part.text;
    return text;
  }

  addMessage(text: string, partial: boolean): MessageItem {
    const item: MessageItem = {
      id: itemId(this.place.responseId, this.items.length),
      type: 'message',
      status: partial ? 'incomplete' : 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text, annotations: [] }],
    };
    this.items.push(item);
    return item;
  }
}

/**
 * The body of a response that is not streamed. A session that is not kept is dropped first. Throws the error of a turn that failed;
 * also throws, and drops nothing, if this process stops before the turn has ended or paused.
 */
export async function collectResponse(answer: ResponseAnswer, updates: AsyncIterable<SessionUpdate[]>, drop: DropSession) {
  const failed = await applyAll(answer, updates);
  await drop?.();
  if (failed !== undefined) throw turnFailure(failed);
  return answer.body();
}

/** Builds the response to its end. Throws if this process stops before. Returns the failure of a turn that failed. */
export async function applyAll(answer: ResponseAnswer, updates: AsyncIterable<SessionUpdate[]>): Promise<TurnFailed | undefined> {
  let failed: TurnFailed | undefined;
  for await (const batch of updates) {
    for (const update of batch) {
      if (isStored(update)) answer.apply(update);
      if (update.type === 'turn-failed') failed = update.data;
    }
  }
  if (answer.status === 'in_progress') throw new CutShort();
  return failed;
}

/** Client libraries read both details without checking that they are there. Reasoning tokens are not counted apart. */
function responseUsage(usage: Usage) {
  return {
    ...wireUsage(usage),
    input_tokens_details: { cached_tokens: usage.cachedInput },
    output_tokens_details: { reasoning_tokens: 0 },
  };
}

function approvalItem(request: ApprovalRequested): OutputItem {
  return {
    id: request.requestId,
    type: 'mcp_approval_request',
    server_label: serverLabel,
    name: request.tool,
    arguments: JSON.stringify(request.input ?? {}),
  };
}
