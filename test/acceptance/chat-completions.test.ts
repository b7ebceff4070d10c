// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { notFoundText, pinned, sessionCount, transcript } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const user = (content: unknown) => ({ role: 'user', content });
const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/chat/completions`;
const contentOf = (answer: { body: { choices: { message: { content: string } }[] } }) => answer.body.choices[0]?.message.content;

test('a unary completion is what is documented, to the byte', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { model: 'anything', messages: [user('/say Hello big world')] });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.equal(
    pinned(answer.text).replace(/"usage":.*/, ''),
    '{"id":"chatcmpl-ID","object":"chat.completion","created":0,"model":"anything","choices":[{"index":0,"message":{"role":"assistant","content":"Hello big world"},"finish_reason":"stop"}],',
  );
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = answer.body.usage;
  assert.ok(prompt > 0 && completion > 0);
  assert.equal(total, prompt + completion);
  assert.ok(Math.abs(answer.body.created - Date.now() / 1000) < 60);
});

test('without a model the answer names the agent', async () => {
  const tenant = await createTenant(url);
  assert.equal((await tenant.post(pathOf(tenant), { messages: [user('hi')] })).body.model, 'helper');
});

test('a stream is bare data lines in order, then usage, then [DONE]', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { model: 'm', stream: true, messages: [user('/say Hello big world')] });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const head = 'data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[';
  assert.equal(
    pinned(answer.text).replace(/_tokens":\d+/g, '_tokens":0'),
    [
      `${head}{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`,
      `${head}{"index":0,"delta":{"content":"Hello "},"finish_reason":null}]}`,
      `${head}{"index":0,"delta":{"content":"big "},"finish_reason":null}]}`,
      `${head}{"index":0,"delta":{"content":"world"},"finish_reason":null}]}`,
      `${head}{"index":0,"delta":{},"finish_reason":"stop"}]}`,
      `${head}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
      'data: [DONE]',
      '',
    ].join('\n\n'),
  );
});

test('a stream has no chunk with empty choices if its client wants no usage', async () => {
  const tenant = await createTenant(url);
  for (const messages of [[user('/say Hello')], []]) {
    const streamed = async (options: unknown) => {
      const { text } = await tenant.post(pathOf(tenant), { stream: true, stream_options: options, messages });
      return [text.includes('"choices":[]'), text.endsWith('"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')];
    };
    assert.deepEqual(await streamed({ include_usage: false }), [false, true]);
    for (const options of [{ include_usage: true }, {}, null, 'odd']) assert.deepEqual(await streamed(options), [true, false]);
  }
});

test('a failure in the stream is an error chunk without [DONE]; the text before it stands', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { stream: true, messages: [user('/fail broken_stream')] });
  assert.equal(answer.status, 200);
  const frames = answer.text.split('\n\n');
  assert.equal(
    frames.at(-2),
    'data: {"error":{"message":"The offline model was told to break off its answer.","type":"server_error","code":"broken_stream","provider":"offline"}}',
  );
  assert.ok(!answer.text.includes('[DONE]'));
  const said = frames.slice(0, -2).map((frame) => JSON.parse(frame.slice(6)).choices[0].delta.content ?? '');
  assert.equal(said.join(''), 'This answer breaks off in the');
});

test("a provider's refusal is a status when unary and an error chunk when streamed", async () => {
  const tenant = await createTenant(url);
  for (const [code, status, error] of [
    ['unauthorized', 422, 'byok_key_rejected'],
    ['rate_limited', 429, 'rate_limited'],
    ['overloaded', 503, 'overloaded'],
    ['broken_stream', 502, 'broken_stream'],
  ] as const) {
    const unary = await tenant.post(pathOf(tenant), { messages: [user(`/fail ${code}`)] });
    assert.deepEqual([unary.status, unary.body.detail.error, unary.body.error.code], [status, error, error]);
    assert.equal(unary.headers.has('retry-after'), status === 429 || status === 503);
  }
  const streamed = await tenant.post(pathOf(tenant), { stream: true, messages: [user('/fail unauthorized')] });
  assert.equal(
    streamed.text,
    'data: {"error":{"message":"The offline model was told to reject its key.","type":"invalid_request_error","code":"byok_key_rejected","provider":"offline"}}\n\n',
  );
});

test('without anything to run the answer is 200 with empty content, and no turn is run', async () => {
  const tenant = await createTenant(url);
  assert.deepEqual([(await tenant.post(pathOf(tenant), { store: false })).status, await sessionCount(tenant)], [200, 0]);
  for (const body of [{}, { messages: [] }, { messages: [{ role: 'system', content: 'Be brief.' }] }, { messages: [user('')] }]) {
    const answer = await tenant.post(pathOf(tenant), body);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(contentOf(answer), '');
    assert.deepEqual(answer.body.usage, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });
    assert.deepEqual(await transcript(tenant, answer.headers.get('x-svc-session') ?? ''), []);
  }
  const keyed = () => tenant.post(pathOf(tenant), {}, { 'idempotency-key': 'nothing' });
  const answers = [...(await Promise.all([keyed(), keyed(), keyed()])), await keyed()];
  assert.equal(new Set(answers.map(({ text, headers }) => `${headers.get('x-svc-session')} ${text}`)).size, 1, 'also at the same moment');
  assert.deepEqual(answers.map(({ headers }) => headers.get('idempotent-replayed') ?? 'first').sort(), ['first', 'true', 'true', 'true']);
  const reused = await tenant.post(pathOf(tenant), { messages: [user('/say hi')] }, { 'idempotency-key': 'nothing' });
  assert.equal(reused.body.error.code, 'idempotency_key_reused');
  const streamed = await tenant.post(pathOf(tenant), { stream: true });
  assert.deepEqual(
    streamed.text.split('\n\n').map((frame) => /"delta":\{[^}]*\}|"choices":\[\]|\[DONE\]/.exec(frame)?.[0]),
    ['"delta":{"role":"assistant"}', '"delta":{}', '"choices":[]', '[DONE]', undefined],
  );
  await tenant.operate({ credits_micros: 0 });
  const overBudget = await tenant.post(pathOf(tenant), {});
  assert.deepEqual([overBudget.status, contentOf(overBudget)], [200, ''], 'a budget refuses turns, and here is none');
});

test('in a new session the earlier messages are context, and only the last user message is a message', async () => {
  const tenant = await createTenant(url);
  const messages = [
    { role: 'system', content: 'Be brief.' },
    user('My name is Ann.'),
    { role: 'assistant', content: 'Hello Ann.' },
    user('What did I say?'),
  ];
  const answer = await tenant.post(pathOf(tenant), { messages });
  assert.equal(contentOf(answer), 'You said: "What did I say?". This is turn 2 of our conversation.', 'what a system says is no turn');
  const untold = await tenant.post(pathOf(tenant), { messages: messages.slice(1) });
  assert.ok(untold.body.usage.prompt_tokens < answer.body.usage.prompt_tokens, 'but the model saw it');
  assert.deepEqual(await transcript(tenant, answer.headers.get('x-svc-session') ?? ''), [
    { role: 'user', text: 'What did I say?' },
    { role: 'assistant', text: 'You said: "What did I say?". This is turn 2 of our conversation.' },
  ]);
});

test('content may be text parts, roles may be any that the libraries send, and unknown keys are ignored', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), {
    temperature: 0.2,
    tools: [{ type: 'function', function: { name: 'x' } }],
    stream_options: { include_usage: true },
    messages: [
      { role: 'developer', content: [{ type: 'text', text: 'Be brief.' }] },
      user('Look it up.'),
      { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'x', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'found' },
      {
        role: 'user',
        name: 'ann',
        content: [
          { type: 'text', text: '/say par' },
          { type: 'text', text: 'ts' },
        ],
      },
    ],
  });
  assert.equal(contentOf(answer), 'parts');
  const developer = await tenant.post(pathOf(tenant), { messages: [{ role: 'developer', content: 'Be brief.' }, user('hi')] });
  assert.equal(contentOf(developer), 'You said: "hi". This is turn 1 of our conversation.', 'a developer speaks as the system does');
});

test('X-Svc-Session goes on with a session, and so does metadata.session_id', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { messages: [user('one')] });
  const session = first.headers.get('x-svc-session') ?? '';
  assert.match(session, /^ses_/);
  const second = await tenant.post(pathOf(tenant), { messages: [user('two')] }, { 'x-svc-session': session });
  assert.equal(contentOf(second), 'You said: "two". This is turn 2 of our conversation.');
  const messages = [user('one'), { role: 'assistant', content: 'x' }, user('two'), { role: 'assistant', content: 'x' }, user('three')];
  const third = await tenant.post(pathOf(tenant), { messages, stream: true, metadata: { session_id: session } });
  assert.ok(third.text.includes('"delta":{"content":"3 "}'), 'what the session has is not given to it again');
  for (const answer of [second, third]) assert.equal(answer.headers.get('x-svc-session'), session);
  const other = await tenant.session();
  const both = { messages: [user('here')], metadata: { session_id: other } };
  await tenant.post(pathOf(tenant), both, { 'x-svc-session': session });
  assert.equal((await transcript(tenant, session)).length, 8, 'the header comes first');
  assert.equal((await transcript(tenant, other)).length, 0);
});

test('a system message that changes is told to a session that goes on, and the same one only once', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { messages: [{ role: 'system', content: 'Speak plainly.' }, user('/say yes')] });
  const session = { 'x-svc-session': first.headers.get('x-svc-session') ?? '' };
  const repeated = async (content: string) => {
    const messages = [{ role: 'system', content }, user('/say yes'), { role: 'assistant', content: 'yes' }, user('/say no')];
    return (await tenant.post(pathOf(tenant), { messages }, session)).body.usage.prompt_tokens;
  };
  const [same, again, changed] = [
    await repeated('Speak plainly.'),
    await repeated('Speak plainly.'),
    await repeated('Speak French, at length.'),
  ];
  assert.ok(changed - again > again - same, `${[same, again, changed]} tokens`);
});

test('a session made by another surface can be gone on with', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  await tenant.say(session, 'one');
  const answer = await tenant.post(pathOf(tenant), { messages: [user('two')] }, { 'x-svc-session': session });
  assert.equal(contentOf(answer), 'You said: "two". This is turn 2 of our conversation.');
});

test('a session that is not there is 404, before the body is looked at', async () => {
  const tenant = await createTenant(url);
  const other = await createTenant(url);
  const foreign = await other.session();
  await tenant.post('/api/agents', { slug: 'second' });
  await tenant.post('/api/agents/second/releases', { activate: true });
  const own = await tenant.session();
  for (const answer of [
    await tenant.post(pathOf(tenant), { messages: [user('x')] }, { 'x-svc-session': 'ses_nowhere' }),
    await tenant.post(pathOf(tenant), { messages: [user('x')] }, { 'x-svc-session': foreign }),
    await tenant.post(pathOf(tenant), { messages: 7 }, { 'x-svc-session': foreign }),
    await tenant.post(pathOf(tenant), { messages: [user('x')], metadata: { session_id: foreign } }),
    await tenant.post(pathOf(tenant), { messages: 7, metadata: { session_id: foreign } }),
    await tenant.post(`/${tenant.slug}/second/v1/chat/completions`, { messages: [user('x')] }, { 'x-svc-session': own }),
  ])
    assert.deepEqual([answer.status, answer.text], [404, notFoundText]);
});

test('nobody can be asked on this wire: a guarded tool is denied and the turn goes on', async () => {
  const tenant = await createTenant(url, { tools: ['bash'] });
  const answer = await tenant.post(pathOf(tenant), { messages: [user('/tool bash {"command":"echo hi"}')] });
  assert.match(contentOf(answer) ?? '', /^bash failed: This action is not permitted/);
  const session = answer.headers.get('x-svc-session') ?? '';
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions/${session}`)).body.pending_input, null);
  await tenant.release({ tools: ['bash'], permissions: { mode: 'autonomous' } });
  const free = await tenant.post(pathOf(tenant), { messages: [user('/tool bash {"command":"echo hi"}')] });
  assert.equal(contentOf(free), 'bash answered: hi');
});

test('a session that waits for an approval refuses a message with 409', async () => {
  const tenant = await createTenant(url, { tools: ['bash'] });
  const session = await tenant.session();
  const paused = await tenant.say(session, '/tool bash {"command":"echo hi"}');
  const answer = await tenant.post(pathOf(tenant), { messages: [user('and now?')] }, { 'x-svc-session': session });
  assert.deepEqual([answer.status, answer.body.detail.error, answer.body.error.code], [409, 'input_pending', 'input_pending']);
  assert.equal(answer.body.detail.request_id, paused.pending_input.request_id);
});

test('the agent is listed as the only model', async () => {
  const tenant = await createTenant(url);
  const list = await tenant.get(`${tenant.agentPath}/v1/models`);
  assert.equal(
    list.text.replace(/"created":\d{10},/, '"created":0,'),
    `{"object":"list","data":[{"id":"helper","object":"model","created":0,"owned_by":"${tenant.slug}"}]}`,
  );
  assert.deepEqual((await tenant.get(`${tenant.agentPath}/v1/models/helper`)).body, list.body.data[0]);
  const missing = await tenant.get(`${tenant.agentPath}/v1/models/other`);
  assert.deepEqual([missing.status, missing.text], [404, notFoundText]);
});
