import { timeOfId } from '../../ids.ts';
import { isStored, type SessionUpdate, type StoredEvent, type TurnEnded } from '../../session/events.ts';
import { betweenSteps } from '../../session/transcript.ts';
import { noUsage, type Usage } from '../../session/usage.ts';
import type { TurnOutcome } from '../../turn/collect.ts';
import { turnFailure } from '../../turn/failure.ts';
import { type AdapterError, adapterError } from '../shared/adapters/errors.ts';
import { toWireError } from '../shared/errors.ts';
import { closingError } from '../shared/streams/closing-error.ts';
import type { ClosingReason } from '../shared/streams/open-streams.ts';
import { type NewText, ShownText } from '../shared/streams/shown-text.ts';

const endOfStream = 'data: [DONE]\n\n';

/** Turns the updates of a turn into chunks of the chat-completions wire. It runs for every token, so it builds text, not objects. */
export class ChatProjector {
  /** Whether the last chunk has been made. */
  ended = false;
  private readonly head: string;
  private readonly showsUsage: boolean;
  private readonly shown = new ShownText();
  private hasBegun = false;
  /** The step whose text was shown last; 0 if none was. */
  private step = 0;

  constructor(turnId: string, model: string, showsUsage = true) {
    this.showsUsage = showsUsage;
    const about = { id: completionId(turnId), object: 'chat.completion.chunk', created: createdOf(turnId), model };
    this.head = `data: ${JSON.stringify(about).slice(0, -1)},"choices":[`;
  }

  project(update: SessionUpdate): string {
    if (isStored(update)) return this.projectStored(update);
    return update.type === 'text-delta' ? this.content(update.step, this.shown.addLive(update)) : '';
  }

  private projectStored(event: StoredEvent): string {
    switch (event.type) {
      case 'message-produced':
        return this.content(event.data.step, this.shown.addStored(event.data));
      case 'tool-called':
        // A tool call follows the message of its step in the log: a message that is not stored by now never will be.
        this.shown.giveUp();
        return '';
      case 'turn-ended':
        this.ended = true;
        return this.finish(finishReason(event.data), event.data.usage);
      case 'turn-failed': {
        this.ended = true;
        return failure(adapterError(toWireError(turnFailure(event.data))), event.data.provider);
      }
      default:
        return '';
    }
  }

  /** The last chunk when the server ends the stream; empty if the turn has ended. */
  close(reason: ClosingReason): string {
    return this.ended ? '' : failure(closingError(reason), undefined);
  }

  /** The whole stream of a request without a message. */
  empty(): string {
    return this.finish('stop', noUsage);
  }

  /** This wire has no steps, and cannot take back the text of one that broke off: a blank line separates it from what follows. */
  private content(step: number, { text, restarts }: NewText): string {
    if (text === '') return '';
    const separator = restarts || (this.step !== 0 && step !== this.step) ? betweenSteps : '';
    this.step = step;
    return `${this.begin()}${this.head}{"index":0,"delta":{"content":${JSON.stringify(separator + text)}},"finish_reason":null}]}\n\n`;
  }

  private finish(reason: string, usage: Usage): string {
    const used = this.showsUsage ? `${this.head}],"usage":${JSON.stringify(chatUsage(usage))}}\n\n` : '';
    return `${this.begin()}${this.head}{"index":0,"delta":{},"finish_reason":"${reason}"}]}\n\n${used}${endOfStream}`;
  }

  private begin(): string {
    if (this.hasBegun) return '';
    this.hasBegun = true;
    return `${this.head}{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n`;
  }
}

/** The body of a response that is not streamed. Throws the error of a turn that failed. */
export function completionOf(turnId: string, model: string, outcome: Pick<TurnOutcome, 'text' | 'usage' | 'ended' | 'failed'>) {
  if (outcome.failed !== undefined) throw turnFailure(outcome.failed);
  return {
    id: completionId(turnId),
    object: 'chat.completion' as const,
    created: createdOf(turnId),
    model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant' as const, content: outcome.text },
        finish_reason: outcome.ended === undefined ? 'stop' : finishReason(outcome.ended),
      },
    ],
    usage: chatUsage(outcome.usage),
  };
}

function failure({ message, type, code }: AdapterError, provider: string | undefined): string {
  return `data: ${JSON.stringify({ error: { message, type, code, provider: provider ?? null } })}\n\n`;
}

function finishReason(ended: TurnEnded): string {
  return ended.stopReason === 'max_steps' ? 'length' : 'stop';
}

function chatUsage(usage: Usage) {
  const { input, output, cachedInput } = usage;
  const cached = cachedInput === 0 ? {} : { prompt_tokens_details: { cached_tokens: cachedInput } };
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output, ...cached };
}

/** Made from the turn's id, so that a repeated request gets the same completion. */
function completionId(turnId: string): string {
  return turnId.replace('turn_', 'chatcmpl-');
}

function createdOf(turnId: string): number {
  return Math.floor(timeOfId(turnId) / 1000);
}
