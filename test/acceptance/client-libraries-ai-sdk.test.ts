// The AI SDK with its OpenAI and OpenAI-compatible providers, unchanged, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  convertToModelMessages,
  generateText,
  type LanguageModel,
  type ModelMessage,
  Output,
  readUIMessageStream,
  streamText,
  tool,
  type UIMessage,
} from 'ai';
import { z } from 'zod';
import { sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

const baseOf = (tenant: Tenant, agent = 'helper') => `${url}/${tenant.slug}/${agent}/v1`;

const providers: { name: string; model(tenant: Tenant, options?: { apiKey?: string; agent?: string }): LanguageModel }[] = [
  {
    name: '@ai-sdk/openai chat',
    model: (tenant, { apiKey = tenant.key, agent } = {}) => createOpenAI({ baseURL: baseOf(tenant, agent), apiKey }).chat('helper'),
  },
  {
    name: '@ai-sdk/openai responses',
    model: (tenant, { apiKey = tenant.key, agent } = {}) => createOpenAI({ baseURL: baseOf(tenant, agent), apiKey }).responses('helper'),
  },
  {
    name: '@ai-sdk/openai-compatible',
    model: (tenant, { apiKey = tenant.key, agent } = {}) =>
      createOpenAICompatible({ name: 'parley', baseURL: baseOf(tenant, agent), apiKey, includeUsage: true }).chatModel('helper'),
  },
];

for (const { name, model } of providers) {
  test(`${name}: generateText`, async () => {
    const tenant = await createTenant(url);
    const { text, usage, finishReason } = await generateText({ model: model(tenant), prompt: '/say Hello there' });
    assert.deepEqual([text, finishReason], ['Hello there', 'stop']);
    assert.equal(usage.totalTokens, (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
    assert.ok((usage.inputTokens ?? 0) > 0);
  });

  test(`${name}: streamText, piece by piece, with usage`, async () => {
    const tenant = await createTenant(url);
    const result = streamText({ model: model(tenant), prompt: '/say one two three' });
    const pieces: string[] = [];
    for await (const piece of result.textStream) pieces.push(piece);
    assert.deepEqual(pieces, ['one ', 'two ', 'three']);
    assert.equal(await result.finishReason, 'stop');
    assert.ok(((await result.usage).totalTokens ?? 0) > 0);
  });

  test(`${name}: a tool of the program is not called, and its schema reads an answer in JSON`, async () => {
    let called = 0;
    const execute = () => ++called;
    const call = {
      model: model(await createTenant(url)),
      prompt: '/say {"celsius":21}',
      tools: { weather: tool({ inputSchema: z.object({}), execute }) },
      output: Output.object({ schema: z.object({ celsius: z.number() }) }),
    };
    assert.deepEqual((await generateText(call)).output, { celsius: 21 });
    assert.deepEqual(await streamText(call).output, { celsius: 21 });
    assert.equal(called, 0);
  });

  test(`${name}: several turns are one conversation`, async () => {
    const tenant = await createTenant(url);
    const messages: ModelMessage[] = [{ role: 'user', content: 'one' }];
    const first = await generateText({ model: model(tenant), messages });
    messages.push(...first.response.messages, { role: 'user', content: 'two' });
    const second = await generateText({ model: model(tenant), messages });
    assert.equal(second.text, 'You said: "two". This is turn 2 of our conversation.');
    messages.push(...second.response.messages, { role: 'user', content: 'three' });
    const third = streamText({ model: model(tenant), messages });
    assert.equal(await third.text, 'You said: "three". This is turn 3 of our conversation.');
    assert.equal(await sessionCount(tenant), name.includes('responses') ? 1 : 3, 'responses knows the session by the items that come back');
  });

  test(`${name}: a failure in the stream is seen by the caller`, async () => {
    const tenant = await createTenant(url);
    const errors: unknown[] = [];
    const result = streamText({ model: model(tenant), prompt: '/fail broken_stream', onError: ({ error }) => void errors.push(error) });
    let text = '';
    let failed = false;
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text;
      failed ||= part.type === 'error';
    }
    assert.equal(text, 'This answer breaks off in the');
    assert.ok(failed);
    assert.match(
      JSON.stringify(errors, (_, value) => (value instanceof Error ? { ...value, message: value.message } : value)),
      /break off its answer/,
    );
  });

  test(`${name}: 401, 402 and 404 carry their message`, async () => {
    const tenant = await createTenant(url);
    const failure = async (broken: LanguageModel) => {
      const error = await generateText({ model: broken, prompt: 'hi', maxRetries: 0 }).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      assert.ok(APICallError.isInstance(error), String(error));
      return [error.statusCode, error.message];
    };
    assert.deepEqual(await failure(model(tenant, { apiKey: 'svc_live_unknownunknownunknown' })), [401, 'Unauthorized']);
    assert.deepEqual(await failure(model(tenant, { agent: 'nobody' })), [404, 'Not Found']);
    await tenant.operate({ credits_micros: 0 });
    assert.deepEqual(await failure(model(tenant)), [402, 'The prepaid balance is exhausted.']);
  });
}

test('@ai-sdk/openai responses: an approval is asked for and answered', async () => {
  const tenant = await createTenant(url, { tools: ['bash'] });
  const provider = createOpenAI({ baseURL: baseOf(tenant), apiKey: tenant.key });
  const tools = { parley: provider.tools.mcp({ serverLabel: 'parley', serverUrl: 'https://parley.example', requireApproval: 'always' }) };
  const messages: ModelMessage[] = [{ role: 'user', content: '/tool bash {"command":"echo hi"}' }];
  const paused = await generateText({ model: provider.responses('helper'), messages, tools });
  const request = paused.content.find((part) => part.type === 'tool-approval-request');
  assert.ok(request !== undefined, JSON.stringify(paused.content));
  messages.push(...paused.response.messages, {
    role: 'tool',
    content: [{ type: 'tool-approval-response', approvalId: request.approvalId, approved: true, providerExecuted: true }],
  });
  const done = await generateText({ model: provider.responses('helper'), messages, tools });
  assert.equal(done.text, 'bash answered: hi');
});

for (const [approved, store] of [
  [true, true],
  [false, true],
  [true, false],
  [false, false],
]) {
  const outcome = `${approved ? 'given' : 'denied'}, ${store ? 'stored' : 'not stored'}`;
  test(`@ai-sdk/openai responses: a chat in a page goes on after an approval is ${outcome}`, async () => {
    const tenant = await createTenant(url, { tools: ['bash'] });
    const model = createOpenAI({ baseURL: baseOf(tenant), apiKey: tenant.key }).responses('helper');
    const say = (text: string): UIMessage => ({ id: text, role: 'user', parts: [{ type: 'text', text }] });
    const chat: UIMessage[] = [say('/tool bash {"command":"echo hi"}')];
    // What useChat and the route behind it do together; with `message` it goes on with that one.
    const answer = async (message?: UIMessage): Promise<UIMessage> => {
      const messages = await convertToModelMessages(message === undefined ? chat : [...chat, message]);
      const stream = streamText({ model, messages, onError() {}, providerOptions: { openai: { store } } }).toUIMessageStream({
        onError: String,
      });
      const options = message === undefined ? { stream } : { stream, message };
      let last: UIMessage | undefined;
      for await (const next of readUIMessageStream({ ...options, terminateOnError: true })) last = next;
      assert.ok(last !== undefined);
      return last;
    };
    const textOf = ({ parts }: UIMessage) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const paused = await answer();
    const request = paused.parts.find((part) => part.type === 'dynamic-tool');
    assert.equal(request?.state, 'approval-requested');
    Object.assign(request, { state: 'approval-responded', approval: { ...request?.approval, approved } });
    const done = await answer(paused);
    assert.match(textOf(done), approved ? /^bash answered: hi$/ : /^bash failed: The user denied this action/);
    chat.push(done, say('next'));
    assert.equal(textOf(await answer()), 'You said: "next". This is turn 2 of our conversation.');
    assert.equal(await sessionCount(tenant), store ? 1 : 0);
  });
}
