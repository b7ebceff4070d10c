// The OpenAI Agents SDK, unchanged, against a listening server.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Agent, hostedMcpTool, OpenAIProvider, Runner, setTracingDisabled, tool, user } from '@openai/agents';
import { z } from 'zod';
import { sessionCount } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

setTracingDisabled(true);
const app = await startApp({ after });
const url = await app.listen();

function runnerOf(tenant: Tenant, useResponses = true, apiKey = tenant.key, agent = 'helper'): Runner {
  const modelProvider = new OpenAIProvider({ baseURL: `${url}/${tenant.slug}/${agent}/v1`, apiKey, useResponses });
  return new Runner({ modelProvider, tracingDisabled: true });
}
const assistant = new Agent({ name: 'Assistant', instructions: 'Be brief.', model: 'helper' });

for (const [name, useResponses] of [
  ['responses', true],
  ['chat', false],
] as const) {
  test(`${name}: run, with usage`, async () => {
    const tenant = await createTenant(url);
    const result = await runnerOf(tenant, useResponses).run(assistant, '/say Hello there');
    assert.equal(result.finalOutput, 'Hello there');
    const { usage } = result.runContext;
    assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
    assert.ok(usage.inputTokens > 0);
  });

  test(`${name}: a streamed run`, async () => {
    const tenant = await createTenant(url);
    const result = await runnerOf(tenant, useResponses).run(assistant, '/say one two three', { stream: true });
    let text = '';
    for await (const piece of result.toTextStream()) text += piece;
    await result.completed;
    assert.deepEqual([text, result.finalOutput], ['one two three', 'one two three']);
  });

  test(`${name}: a tool of the program is not called, and its schema reads an answer in JSON`, async () => {
    const runner = runnerOf(await createTenant(url), useResponses);
    let called = 0;
    const weather = tool({ name: 'weather', description: '', parameters: z.object({}), execute: () => ++called });
    const reader = new Agent({
      name: 'Reader',
      model: 'helper',
      tools: [weather],
      handoffs: [assistant],
      outputType: z.object({ celsius: z.number() }),
    });
    assert.deepEqual((await runner.run(reader, '/say {"celsius":21}')).finalOutput, { celsius: 21 });
    assert.equal(called, 0);
  });

  test(`${name}: several turns are one conversation`, async () => {
    const tenant = await createTenant(url);
    const runner = runnerOf(tenant, useResponses);
    const first = await runner.run(assistant, 'one');
    const second = await runner.run(assistant, [...first.history, user('two')]);
    assert.match(second.finalOutput ?? '', /^You said: "two"\. This is turn 2 of our conversation\.$/);
    assert.equal(await sessionCount(tenant), useResponses ? 1 : 2);
  });

  test(`${name}: failures are seen by the caller`, async () => {
    const tenant = await createTenant(url);
    await assert.rejects(runnerOf(tenant, useResponses, 'svc_live_unknownunknownunknown').run(assistant, 'hi'), /401 Unauthorized/);
    await assert.rejects(runnerOf(tenant, useResponses, tenant.key, 'nobody').run(assistant, 'hi'), /404 Not Found/);
    const broken = await runnerOf(tenant, useResponses).run(assistant, '/fail broken_stream', { stream: true });
    await assert.rejects(
      async () => {
        for await (const _ of broken.toTextStream());
        await broken.completed;
      },
      useResponses ? /ended with unsuccessful terminal state "response\.failed"/ : /break off its answer/,
    );
    await tenant.operate({ credits_micros: 0 });
    await assert.rejects(runnerOf(tenant, useResponses).run(assistant, 'hi'), /402 The prepaid balance is exhausted\./);
  });
}

test('responses: previousResponseId goes on with the conversation', async () => {
  const tenant = await createTenant(url);
  const runner = runnerOf(tenant);
  const first = await runner.run(assistant, 'one');
  const second = await runner.run(assistant, 'two', { previousResponseId: first.lastResponseId ?? '' });
  assert.match(second.finalOutput ?? '', /^You said: "two"\. This is turn 2/);
  assert.equal(await sessionCount(tenant), 1);
});

for (const approved of [true, false]) {
  test(`responses: an approval round trip, ${approved ? 'approved' : 'rejected'}`, async () => {
    const tenant = await createTenant(url, { tools: ['bash'] });
    const runner = runnerOf(tenant);
    const guarded = new Agent({
      name: 'Assistant',
      model: 'helper',
      tools: [hostedMcpTool({ serverLabel: 'parley', serverUrl: 'https://parley.example', requireApproval: 'always' })],
    });
    const paused = await runner.run(guarded, '/tool bash {"command":"echo hi"}');
    assert.equal(paused.interruptions.length, 1);
    for (const interruption of paused.interruptions) {
      assert.equal(interruption.rawItem.type === 'hosted_tool_call' && interruption.rawItem.name, 'bash');
      if (approved) paused.state.approve(interruption);
      else paused.state.reject(interruption);
    }
    const done = await runner.run(guarded, paused.state);
    assert.match(done.finalOutput ?? '', approved ? /^bash answered: hi$/ : /^bash failed: The user denied this action/);
    assert.equal(await sessionCount(tenant), 1);
  });
}
