import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { continueText, readTranscript, type TranscriptMessage } from '../../../src/session/transcript.ts';
import { noUsage } from '../../../src/session/usage.ts';

const asked = (text: string): NewEvent => ({ type: 'message-received', data: { messageId: 'msg_1', text } });
const said = (text: string): NewEvent => ({ type: 'message-produced', data: { messageId: 'msg_2', text, step: 1, agent: 'main' } });
const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage: noUsage, step: 1, stepUsage: noUsage } };

/** What is read of the log before each page of the transcript, and that page. */
async function read(pages: [turnId: string, event: NewEvent][][]): Promise<[pages: number, messages: TranscriptMessage[]][]> {
  let taken = 0;
  const log = {
    async *readAll(): AsyncGenerator<StoredEvent[]> {
      for (const page of pages) {
        taken += 1;
        yield page.map(([turnId, event], index) => ({ ...event, turnId, seq: index + 1, createdAt: new Date(0) }));
      }
    },
  };
  const found: [number, TranscriptMessage[]][] = [];
  for await (const messages of readTranscript(log, 'ses_1')) found.push([taken, messages]);
  return found;
}

test('a transcript is read page by page, and only an answer that may go on is held', async () => {
  const one = [asked('a'), said('b'), ended].map((event): [string, NewEvent] => ['turn_1', event]);
  const two = [asked('c'), said('d')].map((event): [string, NewEvent] => ['turn_2', event]);
  const note: [string, NewEvent] = ['turn_3', asked('a note')];
  const rest = [said('e'), said(''), ended].map((event): [string, NewEvent] => ['turn_2', event]);
  assert.deepEqual(await read([one, two, [note], rest, one]), [
    [1, [user('a'), assistant('b')]],
    [2, [user('c')]],
    [3, []],
    [4, [assistant('d\n\ne'), user('a note')]],
    [5, [user('a'), assistant('b')]],
    [5, []],
  ]);
  assert.deepEqual(
    (await read([two])).flatMap(([, messages]) => messages),
    [user('c'), assistant('d')],
  );
  const failed: NewEvent = { type: 'turn-failed', data: { code: 'overloaded', message: 'Later.', usage: noUsage } };
  assert.deepEqual(
    (await read([[...two, ['turn_2', failed], ['turn_4', said('f')]]])).flatMap(([, messages]) => messages),
    [user('c'), assistant('d'), assistant('f')],
  );
  assert.deepEqual([continueText('', 'a'), continueText('a', ''), continueText('a', 'b')], ['a', 'a', 'a\n\nb']);
});

function user(text: string): TranscriptMessage {
  return { role: 'user', text };
}

function assistant(text: string): TranscriptMessage {
  return { role: 'assistant', text };
}
