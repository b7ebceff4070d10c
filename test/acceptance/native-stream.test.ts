// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { type EventStream, type Frame, textOf } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const open = (tenant: Tenant, id: string, text: string, more: Record<string, unknown> = {}): Promise<EventStream> =>
  tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true, ...more });

const run = async (tenant: Tenant, id: string, text: string, more: Record<string, unknown> = {}): Promise<Frame[]> =>
  (await open(tenant, id, text, more)).rest();

/** Numbers that depend on the offline model's count, out of the way of the literal. */
const withoutCounts = (raw: string) => raw.replace(/_tokens":\d+/g, '_tokens":0');

test('a streamed turn is these frames, byte for byte', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  for (const base of ['', tenant.agentPath]) {
    const stream = await tenant.stream(`${base}/v1/sessions/${id}/messages`, { text: '/say Two words', stream: true });
    const { headers } = stream.response;
    assert.equal(headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(headers.get('cache-control'), 'no-cache, no-transform');
    assert.equal(headers.get('x-accel-buffering'), 'no');
    assert.match(headers.get('x-request-id') ?? '', /^\S+$/);
    const frames = await stream.rest();
    const zero = '{"input_tokens":0,"output_tokens":0,"total_tokens":0}';
    assert.deepEqual(
      frames.map((frame) => withoutCounts(frame.raw)),
      [
        `event: step_start\ndata: {"type":"step_start","session_id":"${id}","data":{"step":1,"agent":"main"}}`,
        `event: text\ndata: {"type":"text","session_id":"${id}","data":{"part":{"type":"text","text":"Two "}}}`,
        `event: text\ndata: {"type":"text","session_id":"${id}","data":{"part":{"type":"text","text":"words"}}}`,
        `event: step_finish\ndata: {"type":"step_finish","session_id":"${id}","data":{"step":1,"finish_reason":"stop","usage":${zero}}}`,
        `event: done\ndata: {"type":"done","data":{"usage":${zero}}}`,
      ],
    );
    const { usage } = frames.at(-1)?.data.data ?? {};
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
    assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  }
});

test('data is on one line on every stream, also where Python breaks lines and JSON does not', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const said = 'next\u0085line line\u2028separator paragraph\u2029separator';
  const text = `/say ${said}`;
  const { agentPath } = tenant;
  const answers = [
    await tenant.post(`/v1/sessions/${id}/messages`, { text, stream: true }),
    await tenant.post(`${agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: text }], stream: true }),
    await tenant.post(`${agentPath}/v1/responses`, { input: text, stream: true }),
    await tenant.get(`${agentPath}/v1/managed-agents/sessions/${id}/events/stream?until=idle`),
  ];
  for (const { text: frames } of answers) {
    assert.doesNotMatch(frames, /[\u0085\u2028\u2029]/);
    const pieces = frames.matchAll(/"(?:text|content|delta)":"((?:[^"\\]|\\.)*)"/g);
    const shown = Array.from(pieces, ([, piece]) => JSON.parse(`"${piece}"`)).join('');
    assert.ok(shown.includes(said), shown);
  }
});

test('a tool is shown when it is called and when it has finished, between two steps', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  const frames = await run(tenant, id, '/tool bash {"command":"echo hi"}\n/say Done');
  assert.deepEqual(
    frames.map((frame) => frame.event),
    ['step_start', 'tool_use', 'tool_use', 'step_finish', 'step_start', 'text', 'step_finish', 'done'],
  );
  const called = frames[1]?.data.data.part;
  assert.deepEqual(called, { type: 'tool_use', id: called.id, tool: 'bash', input: { command: 'echo hi' }, state: 'running' });
  const finished = frames[2]?.data.data.part;
  assert.deepEqual({ ...finished, output: '' }, { ...called, state: 'completed', output: '' });
  assert.match(finished.output, /hi/);
  assert.equal(frames[3]?.data.data.finish_reason, 'tool_calls');
  assert.deepEqual([frames[4]?.data.data.step, frames[6]?.data.data.step], [2, 2]);
  const steps = [frames[3], frames[6]].map((frame) => frame?.data.data.usage.total_tokens);
  assert.equal(frames[7]?.data.data.usage.total_tokens, steps[0] + steps[1], 'done is the sum of the steps');
});

test('reasoning is streamed only with thinking', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const types = (frames: Frame[]) => [...new Set(frames.map((frame) => frame.event))];
  assert.deepEqual(types(await run(tenant, id, '/think Well now\n/say Yes')), ['step_start', 'text', 'step_finish', 'done']);
  const loud = await run(tenant, id, '/think Well now\n/say Yes', { thinking: true });
  assert.deepEqual(types(loud), ['step_start', 'reasoning', 'text', 'step_finish', 'done']);
  const reasoning = loud.filter((frame) => frame.event === 'reasoning').map((frame) => frame.data.data.part);
  assert.deepEqual(reasoning, [
    { type: 'reasoning', text: 'Well ' },
    { type: 'reasoning', text: 'now' },
  ]);
});

test('words come as they are produced, not at the end', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const stream = await open(tenant, id, '/delay 5000\n/say first second');
  const frames = await stream.until('text');
  assert.equal(textOf(frames), 'first ');
  await stream.leave();
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
});

test('a client that leaves does not stop its turn', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const stream = await open(tenant, id, '/delay 40\n/words 12');
  await stream.until('text');
  await stream.leave();
  // The next message runs when the turn before it has ended.
  assert.equal((await tenant.say(id, '/say after')).text, 'after');
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(body.messages.length, 4);
  assert.equal(body.messages[1].text.split(' ').length, 12);
});

test('a long answer arrives whole, word by word', async () => {
  const tenant = await createTenant(url);
  const frames = await run(tenant, await tenant.session(), '/words 3000');
  assert.equal(textOf(frames).split(' ').length, 3000);
  assert.equal(frames.filter((frame) => frame.event === 'text').length, 3000);
});

test('before the stream starts a refusal is a status, after it an error event', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const refused = await tenant.post(`/v1/sessions/${id}/messages`, { text: 7, stream: true });
  assert.equal(refused.status, 422);
  const frames = await run(tenant, id, '/fail unauthorized');
  const last = frames.at(-1);
  assert.equal(last?.event, 'error');
  assert.deepEqual(last?.data, {
    type: 'error',
    session_id: id,
    data: { code: 'byok_key_rejected', provider: 'offline', message: last?.data.data.message },
  });
  assert.equal((await tenant.say(id, '/say fine')).text, 'fine');
});

test('a stream that breaks shows what came, then the error, and keeps it', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const frames = await run(tenant, id, '/fail broken_stream');
  assert.equal(frames.at(-1)?.data.data.code, 'broken_stream');
  assert.equal(textOf(frames), 'This answer breaks off in the');
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(body.messages[1].text, 'This answer breaks off in the');
});

test('a slow reader gets every word, in order', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const stream = await open(tenant, id, '/words 20000');
  await stream.until('text');
  // Everything else of the process goes on while this reader takes nothing.
  assert.equal((await tenant.say(await tenant.session(), '/say meanwhile')).text, 'meanwhile');
  await tenant.say(id, '/say the turn has ended');
  const frames = await stream.rest();
  assert.equal(textOf(frames).split(' ').length, 20_000 - 1);
  assert.equal(frames.at(-1)?.event, 'done');
});
