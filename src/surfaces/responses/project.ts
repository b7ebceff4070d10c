import { isStored, type LiveFragment, type SessionUpdate, type StoredEvent } from '../../session/events.ts';
import { turnFailure } from '../../turn/failure.ts';
import { type AdapterError, adapterError } from '../shared/adapters/errors.ts';
import { toWireError } from '../shared/errors.ts';
import { closingError } from '../shared/streams/closing-error.ts';
import type { ClosingReason } from '../shared/streams/open-streams.ts';
import { ShownText } from '../shared/streams/shown-text.ts';
import type { MessageItem, ResponseAnswer } from './answer.ts';
import { itemId } from './response-ids.ts';
import { TextSplitter } from './split-text.ts';

/**
 * Turns what a turn adds into events of the responses wire, as text. The same turn always gives the same events under the same
 * `sequence_number`, live or read again, so that a client goes on from the last number it has.
 */
export class ResponseProjector {
  /** Whether the terminal event was given. */
  ended = false;
  private readonly answer: ResponseAnswer;
  private readonly startingAfter: number;
  private readonly shown = new ShownText();
  private readonly splitter = new TextSplitter();
  private sequence = 0;
  /** The message that is being written: its id, place, and what a delta of it begins with. */
  private open: { id: string; index: number; deltaHead: string; shown: string } | undefined;

  constructor(answer: ResponseAnswer, startingAfter = -1) {
    this.answer = answer;
    this.startingAfter = startingAfter;
  }

  /** The first two events, which need nothing of the turn. */
  begin(): string {
    return this.lifeCycle('response.created') + this.lifeCycle('response.in_progress');
  }

  /**
   * What is left to say when the server ends the stream: nothing, if the turn has. It takes no number of its own, since
   * another event of the turn has the next one; and what failed is this stream, so the answer stays as it is.
   */
  close(reason: ClosingReason): string {
    if (this.ended) return '';
    const error = closingError(reason);
    const response = { ...this.answer.body(), status: 'failed', error: { code: error.code, message: error.message } };
    const last = this.sequence - 1;
    return frameText('response.failed', last, { response }) + frameText('error', last, errorData(error));
  }

  project(update: SessionUpdate): string {
    if (!isStored(update)) return this.projectLive(update);
    if (update.seq <= this.answer.place.after) {
      this.answer.apply(update);
      return '';
    }
    const fresh = update.type === 'message-produced' ? this.shown.addStored(update.data) : undefined;
    // These come after the message of their step: if it is not stored by now, it never will be.
    const isPast = update.type === 'tool-called' || update.type === 'turn-ended' || update.type === 'turn-failed';
    let text = fresh?.restarts || isPast ? this.abandonItem() : '';
    const known = this.answer.items.length;
    this.answer.apply(update);
    for (let index = known; index < this.answer.items.length; index += 1) text += this.addItem(index, fresh?.text);
    return text + this.finish(update);
  }

  private projectLive(fragment: LiveFragment): string {
    if (fragment.type !== 'text-delta') return '';
    const { text, restarts } = this.shown.addLive(fragment);
    if (text === '') return '';
    const abandoned = restarts ? this.abandonItem() : '';
    return abandoned + this.openItem(this.answer.items.length) + this.deltas(this.splitter.add(text));
  }

  private addItem(index: number, missing: string | undefined): string {
    const item = this.answer.items[index];
    if (item === undefined) return '';
    if (item.type !== 'message') {
      const place = { output_index: index, item };
      return this.frame('response.output_item.added', place) + this.frame('response.output_item.done', place);
    }
    const whole = item.content[0]?.text ?? '';
    const opening = this.openItem(index);
    return (
      opening + this.deltas(this.splitter.add(missing ?? whole)) + this.deltas(this.splitter.end()) + this.closeItem(index, item, whole)
    );
  }

  private openItem(index: number): string {
    if (this.open !== undefined) return '';
    const { responseId } = this.answer.place;
    const id = itemId(responseId, index);
    const place = JSON.stringify({ response_id: responseId, item_id: id, output_index: index, content_index: 0 });
    this.open = { id, index, deltaHead: `${place.slice(1, -1)},"delta":`, shown: '' };
    const item = { id, type: 'message', status: 'in_progress', role: 'assistant', content: [] };
    const part = { type: 'output_text', text: '', annotations: [] };
    return (
      this.frame('response.output_item.added', { output_index: index, item }) +
      this.frame('response.content_part.added', { item_id: id, output_index: index, content_index: 0, part })
    );
  }

  private deltas(pieces: string[]): string {
    const head = this.open?.deltaHead ?? '';
    let text = '';
    for (const piece of pieces) {
      if (this.open !== undefined) this.open.shown += piece;
      const number = this.sequence++;
      if (number <= this.startingAfter) continue;
      text += `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":${number},${head}${JSON.stringify(piece)},"logprobs":[]}\n\n`;
    }
    return text;
  }

  /** Closes a message that will not go on: the process that wrote it is gone, and what follows is another one. */
  private abandonItem(): string {
    if (this.open === undefined) return '';
    const { index } = this.open;
    const last = this.deltas(this.splitter.end());
    const { shown } = this.open;
    return last + this.closeItem(index, this.answer.addMessage(shown, true), shown);
  }

  private closeItem(index: number, item: MessageItem, whole: string): string {
    this.open = undefined;
    const place = { item_id: item.id, output_index: index, content_index: 0 };
    return (
      this.frame('response.output_text.done', { ...place, text: whole, logprobs: [] }) +
      this.frame('response.content_part.done', { ...place, part: item.content[0] }) +
      this.frame('response.output_item.done', { output_index: index, item })
    );
  }

  private finish(event: StoredEvent): string {
    if (this.answer.status === 'in_progress') return '';
    this.ended = true;
    if (event.type !== 'turn-failed')
      return this.lifeCycle(this.answer.status === 'completed' ? 'response.completed' : 'response.incomplete');
    const error = adapterError(toWireError(turnFailure(event.data)));
    return this.lifeCycle('response.failed') + this.frame('error', errorData(error));
  }

  private lifeCycle(type: string): string {
    return this.frame(type, { response: this.answer.body() });
  }

  private frame(type: string, data: Record<string, unknown>): string {
    const number = this.sequence++;
    return number <= this.startingAfter ? '' : frameText(type, number, data);
  }
}

function frameText(type: string, number: number, data: Record<string, unknown>): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...data })}\n\n`;
}

function errorData(error: AdapterError): Record<string, unknown> {
  const { code, message, param } = error;
  return { code, message, param, error };
}
