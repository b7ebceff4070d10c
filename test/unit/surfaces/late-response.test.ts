// A response that fails after its status 200 has been sent, as the client libraries see it. Half a minute must pass before the
// server sends such a body, so here it comes from the function that makes it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIProvider, Runner } from '@openai/agents';
import { generateText } from 'ai';
import OpenAI from 'openai';
import { ServiceError } from '../../../src/errors.ts';
import { ResponseAnswer } from '../../../src/surfaces/responses/answer.ts';
import { responsePlace } from '../../../src/surfaces/responses/response-ids.ts';

const failure = new ServiceError('upstream', 'It broke.', { code: 'broken_stream' });
const body = new ResponseAnswer(responsePlace('turn_01M7EP1RA10000D2K7Q9V4B6XW', 0), 'helper', {}).lateFailure(failure);
let asked = 0;
const options = {
  baseURL: 'http://127.0.0.1/v1',
  apiKey: 'a',
  fetch: async () => {
    asked += 1;
    return new Response(`   ${JSON.stringify(body)}`, { headers: { 'content-type': 'application/json' } });
  },
};
const client = new OpenAI(options);

test('openai: it has failed, and says why', async () => {
  for (const call of [
    client.responses.create({ model: 'helper', input: 'hi' }),
    client.responses.parse({ model: 'helper', input: 'hi' }),
  ]) {
    const response = await call;
    assert.deepEqual([response.status, response.output, response.output_text], ['failed', [], '']);
    assert.deepEqual(response.error, { message: 'It broke.', type: 'server_error', code: 'broken_stream', param: null });
  }
  assert.deepEqual(body.detail, { error: 'broken_stream', message: 'It broke.' });
});

test('@openai/agents: the run fails and is not tried again', async () => {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client }), tracingDisabled: true });
  asked = 0;
  await assert.rejects(runner.run(new Agent({ name: 'Helper', model: 'helper' }), 'hi'), /response\.failed/);
  assert.equal(asked, 1);
});

test('AI SDK and LangChain: the call throws what went wrong', async () => {
  await assert.rejects(generateText({ model: createOpenAI(options).responses('helper'), prompt: 'hi', maxRetries: 0 }), /It broke\./);
  const { apiKey, ...configuration } = options;
  const model = new ChatOpenAI({ model: 'helper', apiKey, useResponsesApi: true, configuration, maxRetries: 0 });
  await assert.rejects(model.invoke('hi'), /It broke\./);
});
