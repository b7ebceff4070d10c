// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { collect, ManagedClient, readUntil, types } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);

test('frames have id, event and data as documented', async () => {
  const id = await client.create();
  await client.say(id, '/think Let me see\n/tool files {"operation":"list"}\n/say ignored');
  const frames = await collect(await client.follow(id, '?until=idle'));
  for (const { id: cursor, event, data } of frames) {
    assert.equal(cursor, String(data.seq));
    assert.equal(event, data.type);
    assert.equal(data.session_id, id);
    assert.match(String(data.created_at), /\+00:00$/);
  }
  const entries = frames.map((frame) => frame.data);
  assert.deepEqual(types(entries).slice(0, 5), [
    'user.message',
    'session.status_running',
    'agent.thinking',
    'agent.tool_use',
    'agent.tool_result',
  ]);
  const [, , thinking, call, result] = entries;
  assert.equal(thinking?.text, 'Let me see');
  assert.deepEqual(call?.input, { operation: 'list' });
  assert.equal(call?.tool, 'files');
  assert.equal(result?.tool_use_id, call?.tool_use_id);
  assert.equal(result?.is_error, false);
  assert.equal(typeof result?.output, 'string');
  const last = entries.at(-1);
  assert.equal(last?.stop_reason, 'end_turn');
  assert.deepEqual(Object.keys(last?.usage ?? {}), ['input_tokens', 'output_tokens', 'total_tokens']);
});

test('the stream resumes after any seq, and the larger of after and Last-Event-ID wins', async () => {
  const id = await client.create();
  await client.say(id, '/think hm\n/say one');
  const all = await client.untilIdle(id);
  for (let cursor = 0; cursor < all.length; cursor += 1) {
    assert.deepEqual(await client.untilIdle(id, cursor), all.slice(cursor));
  }
  const from = async (query: string, header: string) => {
    const frames = await collect(await client.follow(id, `?until=idle${query}`, { 'last-event-id': header }));
    return frames[0]?.data.seq;
  };
  assert.equal(await from('', '2'), 3);
  assert.equal(await from('&after=1', '3'), 4);
  assert.equal(await from('&after=3', '1'), 4);
  assert.equal(await from('&after=1', 'nonsense'), 2);
});

test('a cursor beyond the log misses nothing that comes', async () => {
  const id = await client.create();
  const stream = await client.follow(id, '?after=1000&until=idle');
  await client.say(id, '/say hello');
  const frames = await collect(stream);
  assert.deepEqual(
    frames.map((frame) => frame.data.seq),
    [1, 2, 3, 4],
  );
});

test('a cursor of any size beyond the log, in the query or in Last-Event-ID, repeats nothing of it', async () => {
  const id = await client.create();
  await client.say(id, '/say one');
  const { length } = await client.untilIdle(id);
  const cursors = ['1000', '9007199254740993', '9'.repeat(20), '9'.repeat(400)];
  const streams = await Promise.all(
    cursors.flatMap((cursor) => [
      client.follow(id, `?until=idle&after=${cursor}`),
      client.follow(id, '?until=idle', { 'last-event-id': cursor }),
    ]),
  );
  await client.say(id, '/say two');
  for (const stream of streams) {
    assert.equal(stream.response.status, 200);
    assert.deepEqual(
      (await collect(stream)).map((frame) => frame.data.seq),
      [1, 2, 3, 4].map((index) => length + index),
    );
  }
});

test('the stream stays open across turns', async () => {
  const id = await client.create();
  const stream = await client.follow(id);
  const iterator = stream[Symbol.asyncIterator]();
  for (const word of ['one', 'two', 'three']) {
    await client.say(id, `/say ${word}`);
    const frames = await readUntil(iterator, ({ data }) => data.type === 'session.status_idle');
    assert.equal(frames.at(-2)?.data.text, word);
  }
  stream.leave();
});

test('deltas come without id or seq, and their sum is the agent.message that follows', async () => {
  const id = await client.create();
  const stream = await client.follow(id, '?deltas=true&until=idle');
  await client.say(id, '/words 40');
  const frames = await collect(stream);
  let sum = '';
  for (const { id: cursor, event, data } of frames) {
    if (event === 'agent.message_delta') {
      assert.equal(data.seq, undefined);
      assert.ok(cursor === undefined || cursor === '2', 'a delta leaves the cursor alone');
      sum += data.text;
    }
    if (event === 'agent.message') assert.equal(sum, data.text);
  }
  assert.ok(frames.filter((frame) => frame.event === 'agent.message_delta').length > 10);
  const plain = await client.untilIdle(id);
  assert.deepEqual(
    plain,
    frames.map((frame) => frame.data).filter((data) => data.seq !== undefined),
  );
});

test('a stream that begins in the middle of a message previews it from its first word', async () => {
  const id = await client.create();
  const early = await client.follow(id, '?deltas=true');
  await client.say(id, '/delay 15\n/words 60');
  let seen = 0;
  const iterator = early[Symbol.asyncIterator]();
  await readUntil(iterator, ({ event }) => event === 'agent.message_delta' && ++seen === 5);
  const late = await collect(await client.follow(id, '?deltas=true&until=idle'));
  early.leave();
  const sum = late.filter((frame) => frame.event === 'agent.message_delta').reduce((text, frame) => text + frame.data.text, '');
  const whole = late.find((frame) => frame.event === 'agent.message')?.data.text;
  assert.equal(sum, whole);
});
