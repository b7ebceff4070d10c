// The openai package, unchanged, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import OpenAI, { APIError, AuthenticationError, ConflictError, NotFoundError, UnprocessableEntityError } from 'openai';
import { sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const clientOf = (tenant: Tenant, options: Record<string, unknown> = {}) =>
  new OpenAI({ baseURL: `${url}${tenant.agentPath}/v1`, apiKey: tenant.key, maxRetries: 0, ...options });
const user = (content: string) => ({ role: 'user' as const, content });

test('chat: create, with usage and the session of the answer', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const { data, response } = await client.chat.completions.create({ model: 'helper', messages: [user('/say Hello there')] }).withResponse();
  assert.equal(data.choices[0]?.message.content, 'Hello there');
  assert.equal(data.usage?.total_tokens, (data.usage?.prompt_tokens ?? 0) + (data.usage?.completion_tokens ?? 0));
  const session = response.headers.get('x-svc-session') ?? '';
  const next = await client.chat.completions.create(
    { model: 'helper', messages: [user('again')] },
    { headers: { 'X-Svc-Session': session } },
  );
  assert.equal(next.choices[0]?.message.content, 'You said: "again". This is turn 2 of our conversation.');
});

test('chat: a raw stream, and the .stream() helper with its snapshots', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const stream = await client.chat.completions.create({
    model: 'helper',
    stream: true,
    stream_options: { include_usage: true },
    messages: [user('/say one two three')],
  });
  const pieces: string[] = [];
  let total = 0;
  for await (const chunk of stream) {
    pieces.push(chunk.choices[0]?.delta.content ?? '');
    total += chunk.usage?.total_tokens ?? 0;
  }
  assert.equal(pieces.join(''), 'one two three');
  assert.ok(total > 0);
  const helper = client.chat.completions.stream({ model: 'helper', messages: [user('/say one two three')] });
  const seen: string[] = [];
  helper.on('content', (delta) => seen.push(delta));
  const final = await helper.finalChatCompletion();
  assert.equal(final.choices[0]?.message.content, 'one two three');
  assert.equal(seen.join(''), 'one two three');
  assert.ok(((await helper.totalUsage()).total_tokens ?? 0) > 0);
});

test('chat: the whole history sent each time is one conversation to the model', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const messages: OpenAI.ChatCompletionMessageParam[] = [user('one')];
  const first = await client.chat.completions.create({ model: 'helper', messages });
  messages.push({ role: 'assistant', content: first.choices[0]?.message.content ?? '' }, user('two'));
  const second = await client.chat.completions.create({ model: 'helper', messages });
  assert.equal(second.choices[0]?.message.content, 'You said: "two". This is turn 2 of our conversation.');
});

test('chat: a failure in the stream is an APIError with its code, after the text before it', async () => {
  const tenant = await createTenant(url);
  const stream = await clientOf(tenant).chat.completions.create({ model: 'helper', stream: true, messages: [user('/fail broken_stream')] });
  let text = '';
  await assert.rejects(
    async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    },
    (error: unknown) => {
      assert.ok(error instanceof APIError);
      assert.deepEqual([error.code, error.type], ['broken_stream', 'server_error']);
      assert.match(error.message, /break off its answer/);
      return true;
    },
  );
  assert.equal(text, 'This answer breaks off in the');
});

test("errors are of the library's own classes and say what happened", async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const ask = { model: 'helper', messages: [user('hi')] };
  const stranger = clientOf(tenant, { apiKey: 'svc_live_unknownunknownunknown' });
  await assert.rejects(stranger.chat.completions.create(ask), (error: unknown) => {
    assert.ok(error instanceof AuthenticationError);
    assert.equal(error.message, '401 Unauthorized');
    return true;
  });
  const elsewhere = clientOf(tenant, { baseURL: `${url}/${tenant.slug}/nobody/v1` });
  for (const call of [() => elsewhere.chat.completions.create(ask), () => elsewhere.responses.create({ model: 'helper', input: 'hi' })]) {
    await assert.rejects(
      async () => await call(),
      (error: unknown) => {
        assert.ok(error instanceof NotFoundError);
        assert.equal(error.message, '404 Not Found');
        return true;
      },
    );
  }
  await assert.rejects(client.chat.completions.create({ ...ask, model: 7 as unknown as string }), UnprocessableEntityError);
  await assert.rejects(client.responses.create({ model: 'helper', input: '/fail unauthorized' }), (error: unknown) => {
    assert.ok(error instanceof UnprocessableEntityError);
    assert.equal(error.code, 'byok_key_rejected');
    return true;
  });
  await tenant.operate({ credits_micros: 0 });
  for (const call of [() => client.chat.completions.create(ask), () => client.responses.create({ model: 'helper', input: 'hi' })]) {
    await assert.rejects(
      async () => await call(),
      (error: unknown) => {
        assert.ok(error instanceof APIError);
        assert.deepEqual([error.status, error.code, error.message], [402, 'budget_exhausted', '402 The prepaid balance is exhausted.']);
        return true;
      },
    );
  }
});

test('a conflict is a ConflictError', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const first = await client.responses.create({ model: 'helper', input: 'hi' }).withResponse();
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${first.response.headers.get('x-svc-session')}`);
  const call = client.responses.create({ model: 'helper', input: 'again', previous_response_id: first.data.id });
  await assert.rejects(call, (error: unknown) => error instanceof ConflictError && error.code === 'session_stopped');
});

test('retries of the library attach to the turn they started', async () => {
  const tenant = await createTenant(url);
  const proxy = await startBreakingProxy(url, (_, index) => (index % 2 === 0 ? { cutAfterBytes: 0 } : undefined));
  try {
    const client = clientOf(tenant, { baseURL: `${proxy.origin}${tenant.agentPath}/v1`, maxRetries: 2 });
    const chat = await client.chat.completions.create({ model: 'helper', messages: [user('/say once')] });
    assert.equal(chat.choices[0]?.message.content, 'once');
    const response = await client.responses.create({ model: 'helper', input: '/say once' });
    assert.equal(response.output_text, 'once');
    const unstored = await client.responses.create({ model: 'helper', input: '/say once', store: false });
    assert.equal(unstored.output_text, 'once');
    assert.equal(proxy.passed.length, 6, 'each was sent twice');
    assert.equal(await sessionCount(tenant), 2, 'and one was not stored');
    const used: { turns: number }[] = (await tenant.get('/api/usage')).body.data;
    assert.equal(
      used.reduce((sum, { turns }) => sum + turns, 0),
      3,
      'and each was run once',
    );
  } finally {
    proxy.close();
  }
});

test('responses: create, go on, retrieve, delete', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const first = await client.responses.create({ model: 'helper', input: '/say Hello there' });
  assert.equal(first.output_text, 'Hello there');
  assert.equal(first.usage?.total_tokens, (first.usage?.input_tokens ?? 0) + (first.usage?.output_tokens ?? 0));
  assert.deepEqual([first.usage?.input_tokens_details.cached_tokens, first.usage?.output_tokens_details.reasoning_tokens], [0, 0]);
  const second = await client.responses.create({ model: 'helper', input: 'again', previous_response_id: first.id });
  assert.equal(second.output_text, 'You said: "again". This is turn 2 of our conversation.');
  const third = await client.responses.create({
    model: 'helper',
    input: [...second.output, user('and again')] as OpenAI.Responses.ResponseInput,
  });
  assert.equal(third.output_text, 'You said: "and again". This is turn 3 of our conversation.');
  assert.equal((await client.responses.retrieve(first.id)).output_text, 'Hello there');
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), NotFoundError);
});

test('responses: the input items, page by page', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const first = await client.responses.create({ model: 'helper', input: '/say one' });
  const second = await client.responses.create({ model: 'helper', input: '/say two', previous_response_id: first.id });
  const texts: unknown[] = [];
  for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 1 }))
    if (item.type === 'message') texts.push(item.content[0]);
  assert.deepEqual(texts, [
    { type: 'input_text', text: '/say one' },
    { type: 'output_text', text: 'one', annotations: [] },
    { type: 'input_text', text: '/say two' },
  ]);
  assert.deepEqual((await client.responses.inputItems.list(second.id)).data[1], first.output[0]);
});

test('responses: a raw stream, the .stream() helper, and a helper that starts in the middle', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const types: string[] = [];
  for await (const event of await client.responses.create({ model: 'helper', stream: true, input: '/say one two' })) types.push(event.type);
  assert.deepEqual(types, [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  const helper = client.responses.stream({ model: 'helper', input: '/say one two' });
  const snapshots: string[] = [];
  helper.on('response.output_text.delta', (event) => snapshots.push(event.snapshot));
  const final = await helper.finalResponse();
  assert.equal(final.output_text, 'one two');
  assert.deepEqual(snapshots, ['one ', 'one two']);
  const resumed = client.responses.stream({ model: 'helper', response_id: final.id, starting_after: 4 });
  const rest: string[] = [];
  for await (const event of resumed) rest.push(event.type);
  assert.equal(rest[0], 'response.output_text.delta');
  assert.equal((await resumed.finalResponse()).output_text, 'one two');
});

test('responses: a failure in the stream is seen by the caller', async () => {
  const tenant = await createTenant(url);
  const client = clientOf(tenant);
  const types: string[] = [];
  await assert.rejects(
    async () => {
      for await (const event of await client.responses.create({ model: 'helper', stream: true, input: '/fail broken_stream' }))
        types.push(event.type);
    },
    (error: unknown) => error instanceof APIError && error.code === 'broken_stream' && /break off its answer/.test(error.message),
  );
  assert.equal(types.at(-1), 'response.failed');
  await assert.rejects(client.responses.stream({ model: 'helper', input: '/fail broken_stream' }).finalResponse(), /break off its answer/);
});

test('responses: an approval is asked for and answered', async () => {
  const tenant = await createTenant(url, { tools: ['bash'] });
  const client = clientOf(tenant);
  const paused = await client.responses.create({ model: 'helper', input: '/tool bash {"command":"echo hi"}' });
  const [request] = paused.output;
  assert.equal(request?.type, 'mcp_approval_request');
  const done = await client.responses.create({
    model: 'helper',
    previous_response_id: paused.id,
    input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true }],
  });
  assert.equal(done.output_text, 'bash answered: hi');
});

test('models: the agent is listed', async () => {
  const tenant = await createTenant(url);
  const ids: string[] = [];
  for await (const model of clientOf(tenant).models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['helper']);
  assert.equal((await clientOf(tenant).models.retrieve('helper')).owned_by, tenant.slug);
});

test('the library tries again what will pass, and does not what will not', async () => {
  const tenant = await createTenant(url);
  const asked: string[] = [];
  /** How often the library sent it, as the server's answers say. */
  const client = clientOf(tenant, {
    maxRetries: 2,
    fetch: async (input: string, init: RequestInit) => {
      const answer = await fetch(input, init);
      asked.push(`${answer.status} ${answer.headers.get('x-should-retry')}`);
      // The waiting is the library's own; only how long is shortened.
      const headers = new Headers(answer.headers);
      if (headers.has('retry-after')) headers.set('retry-after-ms', '1');
      return new Response(answer.body, { status: answer.status, headers });
    },
  });
  const say = async (content: string, session?: string) => {
    asked.length = 0;
    const headers: Record<string, string> = session === undefined ? {} : { 'X-Svc-Session': session };
    await client.chat.completions.create({ model: 'helper', messages: [user(content)] }, { headers }).catch(() => {});
    return asked;
  };
  const stopped = await tenant.session();
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${stopped}`);
  assert.deepEqual(await say('hi', stopped), ['409 false'], 'a conflict stays one');
  assert.deepEqual(await say('/fail overloaded'), ['503 false'], 'the turn ran: the same request would be told the same');
  assert.deepEqual(await say('/fail rate_limited'), ['429 false']);
  assert.deepEqual(await say('/fail broken_stream'), ['502 false']);
  await tenant.operate({ total_tokens_cap: 0 });
  assert.deepEqual(await say('hi'), ['402 false']);
  await tenant.operate({ total_tokens_cap: null });
  app.context.turns.draining = true;
  assert.deepEqual(await say('hi'), ['503 true', '503 true', '503 true'], 'another process, or this one later, takes it');
  app.context.turns.draining = false;
  assert.deepEqual(await say('hi'), ['200 null']);
});
