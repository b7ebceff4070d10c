// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { notFoundText, pinned, sessionCount, transcript, withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/responses`;
const user = (content: unknown) => ({ role: 'user', content });
const tail = '"error":null,"incomplete_details":null,"tools":[],"tool_choice":"auto","parallel_tool_calls":false,"metadata":{}}';
const withoutCounts = (text: string) => pinned(text).replace(/_tokens":\d+/g, '_tokens":0');
const details = '"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}';
const usage = `"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,${details}}`;
const hello =
  '{"id":"msg_ID_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello big world","annotations":[]}]}';

test('a unary response is what is documented, to the byte', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { model: 'anything', input: '/say Hello big world' });
  assert.equal(answer.status, 200);
  assert.equal(
    withoutCounts(answer.text),
    `{"id":"resp_ID","object":"response","created_at":0,"status":"completed","model":"anything","output":[${hello}],"output_text":"Hello big world",${usage},${tail}`,
  );
  const { input_tokens: input, output_tokens: output, total_tokens: total } = answer.body.usage;
  assert.ok(input > 0 && output > 0);
  assert.equal(total, input + output);
  assert.match(answer.headers.get('x-svc-session') ?? '', /^ses_/);
});

test('a stream has the whole life cycle of its item, numbered, frame by frame', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { model: 'm', stream: true, input: '/say Hello big world' });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const begun = `{"id":"resp_ID","object":"response","created_at":0,"status":"in_progress","model":"m","output":[],"output_text":"","usage":null,${tail}`;
  const done = `{"id":"resp_ID","object":"response","created_at":0,"status":"completed","model":"m","output":[${hello}],"output_text":"Hello big world",${usage},${tail}`;
  const place = '"item_id":"msg_ID_0","output_index":0,"content_index":0';
  const frame = (number: number, type: string, rest: string) =>
    `event: ${type}\ndata: {"type":"${type}","sequence_number":${number},${rest}}`;
  const delta = (number: number, text: string) =>
    frame(number, 'response.output_text.delta', `"response_id":"resp_ID",${place},"delta":"${text}","logprobs":[]`);
  assert.equal(
    withoutCounts(answer.text),
    [
      frame(0, 'response.created', `"response":${begun}`),
      frame(1, 'response.in_progress', `"response":${begun}`),
      frame(
        2,
        'response.output_item.added',
        '"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"in_progress","role":"assistant","content":[]}',
      ),
      frame(3, 'response.content_part.added', `${place},"part":{"type":"output_text","text":"","annotations":[]}`),
      delta(4, 'Hello '),
      delta(5, 'big '),
      delta(6, 'world'),
      frame(7, 'response.output_text.done', `${place},"text":"Hello big world","logprobs":[]`),
      frame(8, 'response.content_part.done', `${place},"part":{"type":"output_text","text":"Hello big world","annotations":[]}`),
      frame(9, 'response.output_item.done', `"output_index":0,"item":${hello}`),
      frame(10, 'response.completed', `"response":${done}`),
      '',
    ].join('\n\n'),
  );
});

test('a failure in the stream is response.failed, then an error event', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { stream: true, input: '/fail broken_stream' });
  assert.equal(answer.status, 200);
  const frames = withoutCounts(answer.text).split('\n\n');
  const message = 'The offline model was told to break off its answer.';
  const failed = JSON.parse(/^event: response\.failed\ndata: (.*)$/.exec(frames.at(-3) ?? '')?.[1] ?? 'null');
  assert.deepEqual([failed.response.status, failed.response.error], ['failed', { code: 'broken_stream', message }]);
  assert.deepEqual([failed.response.output_text, failed.response.output[0].status], ['This answer breaks off in the', 'incomplete']);
  const { sequence_number: number } = failed;
  assert.equal(
    frames.at(-2),
    `event: error\ndata: {"type":"error","sequence_number":${number + 1},"code":"broken_stream","message":"${message}","param":null,"error":{"message":"${message}","type":"server_error","code":"broken_stream","param":null}}`,
  );
  const fetched = await tenant.get(`${pathOf(tenant)}/${/resp_[0-9A-Z]+/.exec(answer.text)?.[0]}`);
  assert.deepEqual([fetched.status, fetched.body.status], [200, 'failed']);
  const [used] = (await tenant.get('/api/usage')).body.data;
  assert.equal(fetched.body.usage.total_tokens, used.total_tokens);
});

test("a provider's refusal of a unary call is a status", async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post(pathOf(tenant), { input: '/fail unauthorized' });
  assert.equal(
    answer.text,
    '{"detail":{"error":"byok_key_rejected","message":"The offline model was told to reject its key.","provider":"offline"},"error":{"message":"The offline model was told to reject its key.","type":"invalid_request_error","code":"byok_key_rejected","param":null}}',
  );
  assert.equal(answer.status, 422);
});

test('previous_response_id goes on with its session, and is echoed only when it was given', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: 'one' });
  assert.ok(!('previous_response_id' in first.body));
  const second = await tenant.post(pathOf(tenant), { input: 'two', previous_response_id: first.body.id });
  assert.equal(second.body.output_text, 'You said: "two". This is turn 2 of our conversation.');
  assert.equal(second.body.previous_response_id, first.body.id);
  assert.equal(second.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
  const streamed = await tenant.post(pathOf(tenant), { input: 'three', stream: true, previous_response_id: second.body.id });
  assert.ok(streamed.text.includes('This is turn 3 of our conversation.'));
});

test('a response that is not there is 404, before the body is looked at', async () => {
  const tenant = await createTenant(url);
  const other = await createTenant(url);
  const foreign = (await other.post(pathOf(other), { input: 'hi' })).body.id;
  for (const id of ['resp_nowhere', 'resp_00000000000000000000000000', foreign, `${foreign}_3`, '', 'turn_x']) {
    const named = await tenant.post(pathOf(tenant), { input: 7, previous_response_id: id });
    assert.deepEqual([named.status, named.text], [404, notFoundText], id);
    if (id === '') continue;
    for (const answer of [await tenant.get(`${pathOf(tenant)}/${id}`), await tenant.delete(`${pathOf(tenant)}/${id}`)])
      assert.deepEqual([answer.status, answer.text], [404, notFoundText], id);
  }
  const conversation = await tenant.post(pathOf(tenant), { input: 'hi', conversation: await other.session() });
  assert.deepEqual([conversation.status, conversation.text], [404, notFoundText]);
  const reference = await tenant.post(pathOf(tenant), { input: [{ type: 'item_reference', id: 'msg_elsewhere' }, user('hi')] });
  assert.deepEqual([reference.status, reference.text], [404, notFoundText]);
  assert.equal(await sessionCount(tenant), 0);
});

test('conversation names a session of ours, as a string or an object', async () => {
  const tenant = await createTenant(url);
  const session = await tenant.session();
  await tenant.say(session, 'one');
  const second = await tenant.post(pathOf(tenant), { input: 'two', conversation: session });
  assert.equal(second.body.output_text, 'You said: "two". This is turn 2 of our conversation.');
  const third = await tenant.post(pathOf(tenant), { input: 'three', conversation: { id: session } });
  assert.equal(third.body.output_text, 'You said: "three". This is turn 3 of our conversation.');
  assert.equal(third.headers.get('x-svc-session'), session);
  const metadata = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, index]));
  const tooMany = await tenant.post(pathOf(tenant), { input: 'x', conversation: session, metadata });
  assert.deepEqual([tooMany.status, tooMany.body.detail], [422, 'metadata: at most 50 keys']);
  await tenant.post(pathOf(tenant), { input: 'four', conversation: session, metadata: { end_user_id: 'ada' } });
  const [usage] = (await tenant.get('/api/usage?group_by=end_user&end_user_id=ada')).body.data;
  assert.equal(usage?.turns, 1, 'each turn is its acting user’s');
});

test('an echoed item of ours goes on with its session, and what the session has is not given to it again', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.post(pathOf(tenant), { input: [{ role: 'system', content: 'Be brief.' }, user('one')] });
  const [item] = first.body.output;
  const session = first.headers.get('x-svc-session') ?? '';
  const echoed = await tenant.post(pathOf(tenant), { input: [{ role: 'system', content: 'Be brief.' }, user('one'), item, user('two')] });
  assert.equal(echoed.headers.get('x-svc-session'), session);
  const referred = await tenant.post(pathOf(tenant), { input: [user('one'), { type: 'item_reference', id: item.id }, user('three')] });
  assert.equal(referred.headers.get('x-svc-session'), session);
  assert.equal(referred.body.output_text, 'You said: "three". This is turn 3 of our conversation.');
  const plain = [await tenant.post(pathOf(tenant), { input: [{ role: 'system', content: 'Be brief.' }, user('one')] })];
  for (const input of ['two', 'three'])
    plain.push(await tenant.post(pathOf(tenant), { input, previous_response_id: plain.at(-1)?.body.id }));
  assert.deepEqual(referred.body.usage, plain.at(-1)?.body.usage, 'the model is shown the same, the system message once');
  assert.deepEqual(
    (await transcript(tenant, session)).filter(({ role }) => role === 'user').map(({ text }) => text),
    ['one', 'two', 'three'],
  );
});

test("an echoed item of another end user's session is as unknown as any other; a reference to it is 404", async () => {
  const tenant = await createTenant(url);
  const [ann, bob] = [await withToken(tenant, { end_user_id: 'ann' }), await withToken(tenant, { end_user_id: 'bob' })];
  const first = await ann.post(pathOf(tenant), { input: 'one' });
  const [item] = first.body.output;
  for (const echoed of [item, { ...item, id: 'msg_01M7GA7HHN0000WJ6EW12JA32B_0' }]) {
    const answer = await bob.post(pathOf(tenant), { input: [user('one'), echoed, user('two')] });
    assert.equal(answer.status, 200);
    assert.notEqual(answer.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
  }
  const referred = await bob.post(pathOf(tenant), { input: [{ type: 'item_reference', id: item.id }, user('two')] });
  assert.deepEqual([referred.status, referred.text], [404, notFoundText]);
});

test('previous_response_id comes before conversation, and conversation before what the input echoes', async () => {
  const tenant = await createTenant(url);
  const one = await tenant.post(pathOf(tenant), { input: 'one' });
  const two = await tenant.post(pathOf(tenant), { input: 'two' });
  const session = await tenant.session();
  const sessionOf = (answer: { headers: Headers }) => answer.headers.get('x-svc-session');
  const input = [...two.body.output, user('go on')];
  const all = await tenant.post(pathOf(tenant), { input, conversation: session, previous_response_id: one.body.id });
  assert.equal(sessionOf(all), sessionOf(one));
  assert.equal(sessionOf(await tenant.post(pathOf(tenant), { input, conversation: session })), session);
  assert.equal(sessionOf(await tenant.post(pathOf(tenant), { input })), sessionOf(two));
});

test('in a new session the items before the last user message, and the instructions, are context', async () => {
  const tenant = await createTenant(url);
  const input = [
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
    user([{ type: 'input_text', text: 'My name is Ann.' }]),
    {
      type: 'message',
      id: 'msg_of_another_server',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hello.', annotations: [] }],
    },
    { type: 'reasoning', id: 'rs_1', summary: [] },
    { type: 'mcp_call', id: 'mcp_1', server_label: 's', name: 'f', arguments: '{}', output: 'x', error: null, approval_request_id: null },
    user('What did I say?'),
  ];
  const answer = await tenant.post(pathOf(tenant), { instructions: 'Speak plainly.', input, temperature: 1, unknown: { x: 1 } });
  assert.equal(
    answer.body.output_text,
    'You said: "What did I say?". This is turn 2 of our conversation.',
    'what a system says is no turn',
  );
  const untold = [await tenant.post(pathOf(tenant), { input }), await tenant.post(pathOf(tenant), { input: input.slice(1) })];
  const seen = [answer, ...untold].map(({ body }) => body.usage.input_tokens);
  assert.deepEqual(
    seen,
    seen.toSorted((a, b) => b - a),
  );
  assert.equal(new Set(seen).size, 3, 'but the model saw it');
  assert.equal((await transcript(tenant, answer.headers.get('x-svc-session') ?? '')).length, 2);
  assert.equal((await tenant.post(pathOf(tenant), { input: [{ role: 'tool', content: 'found' }, user('hi')] })).status, 200);
});

test('instructions that change are told to a session that goes on, and the same ones only once', async () => {
  const tenant = await createTenant(url);
  const say = (instructions: unknown, previous?: string) =>
    tenant.post(pathOf(tenant), { input: '/say yes', instructions, ...(previous === undefined ? {} : { previous_response_id: previous }) });
  const told = async (texts: unknown[]) => {
    let last: string | undefined;
    let tokens = 0;
    for (const text of texts) {
      const { body } = await say(text, last);
      last = body.id;
      tokens = body.usage.input_tokens;
    }
    return tokens;
  };
  const once = await told(['Speak plainly.', 'Speak plainly.', 'Speak plainly.']);
  assert.equal(await told(['Speak plainly.', null, '']), once);
  const others = await told(['Speak plainly.', 'Speak plainly.', 'Speak French, with many long words.']);
  assert.ok(others > once, `${others} tokens, and ${once} without`);

  // As a message of the system at the head of the whole conversation, too.
  const first = await tenant.post(pathOf(tenant), { input: [{ role: 'system', content: 'Speak plainly.' }, user('/say yes')] });
  const repeated = async (content: string) => {
    const input = [{ role: 'system', content }, user('/say yes'), ...first.body.output, user('/say no')];
    return (await tenant.post(pathOf(tenant), { input })).body.usage.input_tokens;
  };
  const [same, again, changed] = [
    await repeated('Speak plainly.'),
    await repeated('Speak plainly.'),
    await repeated('Speak French, at length.'),
  ];
  assert.ok(changed - again > again - same, `${[same, again, changed]} tokens`);
});

test('what tools did is not shown, and the usage is that of every step', async () => {
  const tenant = await createTenant(url, { tools: ['bash'], permissions: { mode: 'autonomous' } });
  const answer = await tenant.post(pathOf(tenant), { input: '/tool bash {"command":"echo one"}', stream: true });
  const done = answer.text.split('\n\n').find((frame) => frame.startsWith('event: response.completed'));
  const { response } = JSON.parse(done?.split('data: ')[1] ?? '');
  assert.equal(response.output_text, 'bash answered: one');
  assert.equal(response.output.length, 1);
  const session = await tenant.get('/api/usage');
  assert.equal(response.usage.input_tokens, session.body.data[0].input_tokens);
  const silent = await tenant.post(pathOf(tenant), { input: '/words 0' });
  const content = [{ type: 'output_text', text: '', annotations: [] }];
  assert.deepEqual(
    [silent.body.output.length, silent.body.output[0].content],
    [1, content],
    'a turn that says nothing is one empty message',
  );
});

test('a turn that is stopped is incomplete and says so', async () => {
  const tenant = await createTenant(url);
  const stream = await tenant.stream(pathOf(tenant), { stream: true, input: '/delay 50\n/words 100' });
  await stream.until('response.output_text.delta');
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${stream.response.headers.get('x-svc-session')}`);
  const last = (await stream.rest()).at(-1);
  assert.equal(last?.event, 'response.incomplete');
  assert.deepEqual([last?.data.response.status, last?.data.response.incomplete_details], ['incomplete', { reason: 'interrupted' }]);
});
