// LangChain's ChatOpenAI, unchanged, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, type UsageMetadata } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';
import { sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

function modelOf(tenant: Tenant, useResponsesApi: boolean, apiKey = tenant.key, agent = 'helper'): ChatOpenAI {
  return new ChatOpenAI({
    model: 'helper',
    apiKey,
    maxRetries: 0,
    useResponsesApi,
    streamUsage: true,
    configuration: { baseURL: `${url}/${tenant.slug}/${agent}/v1` },
  });
}

function totalOf(usage: UsageMetadata | undefined): number {
  if (usage === undefined) return 0;
  assert.ok(usage.input_tokens > 0);
  assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  return usage.total_tokens;
}

for (const [name, useResponsesApi] of [
  ['chat', false],
  ['responses', true],
] as const) {
  test(`${name}: invoke, with usage`, async () => {
    const tenant = await createTenant(url);
    const answer = await modelOf(tenant, useResponsesApi).invoke('/say Hello there');
    assert.equal(answer.text, 'Hello there');
    assert.ok(totalOf(answer.usage_metadata) > 0);
  });

  test(`${name}: stream, with usage`, async () => {
    const tenant = await createTenant(url);
    let text = '';
    let total = 0;
    for await (const chunk of await modelOf(tenant, useResponsesApi).stream('/say one two three')) {
      text += chunk.text;
      total += totalOf(chunk.usage_metadata);
    }
    assert.equal(text, 'one two three');
    assert.ok(total > 0);
  });

  test(`${name}: a tool of the program is not called, and its schema reads an answer in JSON`, async () => {
    const model = modelOf(await createTenant(url), useResponsesApi);
    const weather = tool(() => 'sunny', { name: 'weather', schema: z.object({}) });
    const { text, tool_calls } = await model.bindTools([weather]).invoke('/say Hello there');
    assert.deepEqual([text, tool_calls], ['Hello there', []]);
    for (const method of ['jsonSchema', 'jsonMode'] as const) {
      const reader = model.withStructuredOutput(z.object({ celsius: z.number() }), { method, name: 'weather' });
      assert.deepEqual(await reader.invoke('/say {"celsius":21}'), { celsius: 21 }, method);
    }
  });

  test(`${name}: the history that is passed is one conversation`, async () => {
    const tenant = await createTenant(url);
    const model = modelOf(tenant, useResponsesApi);
    const history: BaseMessage[] = [new SystemMessage('Be brief.'), new HumanMessage('one')];
    history.push(await model.invoke(history), new HumanMessage('two'));
    const second = await model.invoke(history);
    assert.match(second.text, /^You said: "two"\. This is turn 2 of our conversation\.$/);
    assert.ok(second instanceof AIMessage);
    assert.equal(await sessionCount(tenant), useResponsesApi ? 1 : 2);
  });

  test(`${name}: a failure in the stream is seen by the caller`, async () => {
    const tenant = await createTenant(url);
    let text = '';
    await assert.rejects(async () => {
      for await (const chunk of await modelOf(tenant, useResponsesApi).stream('/fail broken_stream')) text += chunk.text;
    }, /break off its answer/);
    assert.equal(text, 'This answer breaks off in the');
  });

  test(`${name}: 401, 402 and 404 carry their message`, async () => {
    const tenant = await createTenant(url);
    await assert.rejects(modelOf(tenant, useResponsesApi, 'svc_live_unknownunknownunknown').invoke('hi'), /401 Unauthorized/);
    await assert.rejects(modelOf(tenant, useResponsesApi, tenant.key, 'nobody').invoke('hi'), /404 Not Found/);
    await tenant.operate({ credits_micros: 0 });
    await assert.rejects(modelOf(tenant, useResponsesApi).invoke('hi'), /402 The prepaid balance is exhausted\./);
  });
}
