import { timeOfId } from '../../ids.ts';
import { isStored, type SessionUpdate, type StoredEvent, type TurnEnded } from '../../session/events.ts';
import { noUsage, type Usage } from '../../session/usage.ts';
import type { TurnOutcome } from '../../turn/collect.ts';
import { turnFailure } from '../../turn/failure.ts';
import { type AdapterError, adapterError } from '../shared/adapters/errors.ts';
import { toWireError } from '../shared/errors.ts';
import { closingError } from '../shared/streams/closing-error.ts';
import type { ClosingReason } from '../shared/streams/open-streams.ts';
import { type NewText, ShownText } from '../shared/streams/shown-text.ts';

const endOfStream = 'data: [DONE]\n\n';

/** Turns what a turn adds into chunks of the chat-completions wire, as text: nothing is built for a token but its line. */
export class ChatProjector {
  /** Whether the last chunk was given. */
  ended = false;
  private readonly head: string;
  private readonly shown = new ShownText();
  private hasBegun = false;
  /** Whether what was shown last broke off and will not go on: this wire cannot take it back, so what follows is set apart. */
  private brokeOff = false;

  constructor(turnId: string, model: string) {
    const about = { id: completionId(turnId), object: 'chat.completion.chunk', created: createdOf(turnId), model };
    this.head = `data: ${JSON.stringify(about).slice(0, -1)},"choices":[`;
  }

  project(update: SessionUpdate): string {
    if (isStored(update)) return this.projectStored(update);
    return update.type === 'text-delta' ? this.content(this.shown.addLive(update)) : '';
  }

  private projectStored(event: StoredEvent): string {
    switch (event.type) {
      case 'message-produced':
        return this.content(this.shown.addStored(event.data));
      case 'tool-called':
        // It comes after the message of its step: if that is not stored by now, it never will be.
        this.brokeOff ||= this.shown.hasUnstored;
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

  /** What is left to say when the server ends the stream: nothing, if the turn has. */
  close(reason: ClosingReason): string {
    return this.ended ? '' : failure(closingError(reason), undefined);
  }

  /** The whole of a stream in which nothing was said. */
  empty(): string {
    return this.finish('stop', noUsage);
  }

  private content({ text, restarts }: NewText): string {
    if (text === '') return '';
    const apart = restarts || this.brokeOff ? '\n\n' : '';
    this.brokeOff = false;
    return `${this.begin()}${this.head}{"index":0,"delta":{"content":${JSON.stringify(apart + text)}},"finish_reason":null}]}\n\n`;
  }

  private finish(reason: string, usage: Usage): string {
    return (
      `${this.begin()}${this.head}{"index":0,"delta":{},"finish_reason":"${reason}"}]}\n\n` +
      `${this.head}],"usage":${JSON.stringify(chatUsage(usage))}}\n\n${endOfStream}`
    );
  }

  private begin(): string {
    if (this.hasBegun) return '';
    this.hasBegun = true;
    return `${this.head}{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n`;
  }
}

/** The unary answer. Throws what the turn failed with. */
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

/** Made of the turn's id, so that a repeated answer is the same answer. */
function completionId(turnId: string): string {
  return turnId.replace('turn_', 'chatcmpl-');
}

function createdOf(turnId: string): number {
  return Math.floor(timeOfId(turnId) / 1000);
}
