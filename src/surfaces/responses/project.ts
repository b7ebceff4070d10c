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
 * Turns the updates of a turn into the text of events of the responses wire. A turn has the same events with the same
 * `sequence_number` whether it is followed live or read from the log, so that a client can continue after the last one it has.
 */
export class ResponseProjector {
  /** Whether the last event has been made. */
  ended = false;
  private readonly answer: ResponseAnswer;
  /** Events up to this number are counted and not sent: the client has them. */
  private startingAfter: number;
  private readonly shown = new ShownText();
  private readonly splitter = new TextSplitter();
  private nextNumber = 0;
  /** The message item that is being sent. Each of its deltas begins with `deltaHead`; `shown` is their sum so far. */
  private open: { index: number; deltaHead: string; shown: string } | undefined;

  constructor(answer: ResponseAnswer, startingAfter = -1) {
    this.answer = answer;
    this.startingAfter = startingAfter;
  }

  /** What is sent before the turn is read. A response that continues its turn cannot begin before its approval was read. */
  begin(): string {
    return this.answer.place.after === 0 ? this.opening() : '';
  }

  /**
   * The last events when the server ends the stream; empty if the turn has ended. They repeat the last number, since the next one
   * belongs to an event of the turn. Only the stream has failed, so `this.answer` is not changed.
   */
  close(reason: ClosingReason): string {
    if (this.ended) return '';
    const opening = this.nextNumber === 0 ? this.opening() : '';
    const error = closingError(reason);
    const response = { ...this.answer.body(), status: 'failed', error: { code: error.code, message: error.message } };
    const last = this.nextNumber - 1;
    return opening + frameText('response.failed', last, { response }) + frameText('error', last, errorData(error));
  }

  project(update: SessionUpdate): string {
    if (!isStored(update)) return this.projectLive(update);
    if (update.seq <= this.answer.place.after) {
      this.answer.apply(update);
      return update.seq === this.answer.place.after ? this.opening() : '';
    }
    const missing = update.type === 'message-produced' ? this.shown.addStored(update.data) : undefined;
    // These follow the message of their step in the log: a message that is not stored by now never will be.
    const isAfterMessage = update.type === 'tool-called' || update.type === 'turn-ended' || update.type === 'turn-failed';
    let text = missing?.restarts || isAfterMessage ? this.abandonItem() : '';
    const known = this.answer.items.length;
    this.answer.apply(update);
    for (let index = known; index < this.answer.items.length; index += 1) text += this.addItem(index, missing?.text);
    return text + this.finish(update);
  }

  private opening(): string {
    return this.responseFrame('response.created') + this.responseFrame('response.in_progress');
  }

  private projectLive(fragment: LiveFragment): string {
    if (fragment.type !== 'text-delta') return '';
    const { text, restarts } = this.shown.addLive(fragment);
    if (text === '') return '';
    const abandoned = restarts ? this.abandonItem() : '';
    return abandoned + this.openItem(this.answer.items.length) + this.deltas(this.splitter.add(text));
  }

  /** `missing` is the part of a message that was not shown live; undefined for a message of which nothing was. */
  private addItem(index: number, missing: string | undefined): string {
    const item = this.answer.items[index];
    if (item === undefined) return '';
    if (item.type !== 'message') {
      const data = { output_index: index, item };
      return this.frame('response.output_item.added', data) + this.frame('response.output_item.done', data);
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
    const position = JSON.stringify({ response_id: responseId, item_id: id, output_index: index, content_index: 0 });
    this.open = { index, deltaHead: `${position.slice(1, -1)},"delta":`, shown: '' };
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
      const number = this.nextNumber++;
      if (number <= this.startingAfter) continue;
      text += `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":${number},${head}${JSON.stringify(piece)},"logprobs":[]}\n\n`;
    }
    return text;
  }

  /** Closes a message that will not be completed, because the process that wrote it died, as an incomplete item. */
  private abandonItem(): string {
    if (this.open === undefined) return '';
    const { index } = this.open;
    const last = this.deltas(this.splitter.end());
    const { shown } = this.open;
    return last + this.closeItem(index, this.answer.addMessage(shown, true), shown);
  }

  private closeItem(index: number, item: MessageItem, whole: string): string {
    this.open = undefined;
    const position = { item_id: item.id, output_index: index, content_index: 0 };
    return (
      this.frame('response.output_text.done', { ...position, text: whole, logprobs: [] }) +
      this.frame('response.content_part.done', { ...position, part: item.content[0] }) +
      this.frame('response.output_item.done', { output_index: index, item })
    );
  }

  private finish(event: StoredEvent): string {
    if (this.answer.status === 'in_progress') return '';
    this.ended = true;
    // A client that has seen as many events may have been shown some that were given up since, and not how the response ended.
    this.startingAfter = Math.min(this.startingAfter, this.nextNumber - 1);
    if (event.type !== 'turn-failed')
      return this.responseFrame(this.answer.status === 'completed' ? 'response.completed' : 'response.incomplete');
    const error = adapterError(toWireError(turnFailure(event.data)));
    return this.responseFrame('response.failed') + this.frame('error', errorData(error));
  }

  private responseFrame(type: string): string {
    return this.frame(type, { response: this.answer.body() });
  }

  private frame(type: string, data: Record<string, unknown>): string {
    const number = this.nextNumber++;
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
