// A turn that fails after the server has sent 200, to keep the connection open: each surface's words for it are an error.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ParleyClient } from '../../../client/src/index.ts';
import { ResponseAnswer } from '../../../src/surfaces/responses/answer.ts';
import { responsePlace } from '../../../src/surfaces/responses/response-ids.ts';
import { adapterFailureBody } from '../../../src/surfaces/shared/adapters/errors.ts';
import { failureBody } from '../../../src/surfaces/shared/errors.ts';

const failure = new Error('the database went away');

const response = new ResponseAnswer(responsePlace('turn_01M7EP1RA10000D2K7Q9V4B6XW', 0), 'helper', {}).lateFailure(failure);

for (const [shape, body] of Object.entries({ native: failureBody(failure), chat: adapterFailureBody(failure), responses: response }))
  test(`a 200 whose body is a failure of the ${shape} API is an error`, async () => {
    const fetch = async () => new Response(`   ${JSON.stringify(body)}`);
    const client = new ParleyClient({ baseUrl: 'http://127.0.0.1', apiKey: 'a', fetch });
    const asked = client.request('POST /{org}/{agent}/v1/chat/completions', {
      path: { org: 'demo', agent: 'assistant' },
      body: { messages: [{ role: 'user', content: 'hello' }] },
    });
    await assert.rejects(asked, (error) => error instanceof ApiError && error.status === 200 && error.detail !== undefined);
  });
