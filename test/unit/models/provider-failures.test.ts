import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { ServiceError } from '../../../src/errors.ts';
import { ModelError, type ModelPart } from '../../../src/harness/model.ts';
import { createModel } from '../../../src/harness/models/create-model.ts';
import { brokenOf, failureOf, readFailure } from '../../../src/harness/models/model-failure.ts';
import { providerFixture, type ScriptedAnswer, serveProvider } from '../../support/provider-server.ts';
import { apiKey, callOf, collect, modelAt, neverAborted, type ProviderCase, providerCases } from './provider-cases.ts';

interface Outcome {
  parts: ModelPart[];
  error: ModelError;
}

async function failWith(wire: ProviderCase, answer: ScriptedAnswer): Promise<Outcome> {
  const server = await serveProvider(answer);
  const parts: ModelPart[] = [];
  try {
    for await (const part of modelAt(server.origin, wire).stream(callOf(), neverAborted)) parts.push(part);
  } catch (error) {
    assert.ok(error instanceof ModelError, `${error} is a ModelError`);
    assert.equal(error.provider, wire.provider);
    assert.ok(!`${error.stack}${JSON.stringify(error)}${error.cause}`.includes(apiKey), 'the key is not told');
    return { parts, error };
  } finally {
    server.close();
  }
  return assert.fail('The call should have failed');
}

const said = (message: string, type = 'error') => JSON.stringify({ type: 'error', error: { type, message } });

const statuses: [status: number, body: string, code: string, headers?: Record<string, string>, retryAfterSeconds?: number][] = [
  [401, said(`Incorrect API key provided: ${apiKey}.`, 'authentication_error'), 'byok_key_rejected'],
  [403, said('No access to this model'), 'byok_key_rejected'],
  [429, said('Slow down', 'rate_limit_error'), 'rate_limited', { 'retry-after': '7' }, 7],
  [429, said('Slow down'), 'rate_limited'],
  [503, said('Try later'), 'overloaded', { 'retry-after': '3' }, 3],
  [529, said('Overloaded', 'overloaded_error'), 'overloaded'],
  [500, said('Something broke'), 'model_error'],
  [502, '<html><body>Bad Gateway</body></html>', 'model_error'],
  [400, said('prompt is too long: 250000 tokens > 200000 maximum'), 'context_length_exceeded'],
  [
    400,
    JSON.stringify({ error: { message: 'This is too much', type: 'invalid_request_error', code: 'context_length_exceeded' } }),
    'context_length_exceeded',
  ],
  [400, said('temperature must be below 2', 'invalid_request_error'), 'invalid_model_request'],
  [404, said('No such model', 'not_found_error'), 'invalid_model_request'],
  [422, '', 'invalid_model_request'],
];

for (const wire of providerCases) {
  describe(`${wire.provider} fails`, () => {
    for (const [status, body, code, headers, retryAfterSeconds] of statuses) {
      test(`with ${status} ${body.slice(0, 60)} as ${code}`, async () => {
        const { error } = await failWith(wire, { status, body, ...(headers && { headers }) });
        assert.equal(error.code, code);
        assert.equal(error.retryAfterSeconds, retryAfterSeconds);
        assert.ok(error.message.includes(String(status)), error.message);
      });
    }

    test('with the words of the provider in its message', async () => {
      const { error } = await failWith(wire, { status: 400, body: said('temperature must be below 2') });
      assert.ok(error.message.includes('temperature must be below 2'), error.message);
    });

    const whole = providerFixture(wire.text);
    const begun = whole.slice(0, whole.indexOf('\n\n', whole.indexOf('Grüße')) + 2);
    const cuts: [name: string, answer: ScriptedAnswer, hasText: boolean][] = [
      ['the connection is cut before anything came', { body: '', cut: true }, false],
      ['the stream ends before anything came', { body: '' }, false],
      ['the connection is cut in the middle', { body: begun, cut: true }, true],
      ['the stream ends in the middle', { body: begun }, true],
      ['an event ends in the middle', { body: whole.slice(0, whole.indexOf('Grüße') + 3), cut: true }, false],
      ['an event is not JSON', { body: `${begun}data: {"oops\n\n` }, true],
    ];
    for (const [name, answer, hasText] of cuts) {
      test(`as a broken stream when ${name}`, async () => {
        const { parts, error } = await failWith(wire, answer);
        assert.equal(error.code, 'broken_stream', error.message);
        assert.equal(error.retryable, true);
        assert.equal(
          parts.some((part) => part.type === 'text-delta'),
          hasText,
        );
        assert.ok(!parts.some((part) => part.type === 'finish'));
      });
    }

    test('as a broken stream when nobody listens', async () => {
      const server = await serveProvider({ body: '' });
      server.close();
      const run = collect(modelAt(server.origin, wire).stream(callOf(), neverAborted));
      const message = `The connection to ${wire.provider} failed: the server cannot be reached (ECONNREFUSED)`;
      await assert.rejects(run, { name: 'ModelError', code: 'broken_stream', message }, 'without its address, which end users may read');
    });

    test('as a refused request, in the words of the refusal, when the destination is not allowed', async () => {
      const config = { provider: wire.provider, name: wire.name, base_url: 'https://10.0.0.1/v1', settings: {} };
      const refuse = async () => {
        throw new ServiceError('invalid', 'The destination 10.0.0.1 is refused', { code: 'destination_refused' });
      };
      const run = collect(createModel(config, { apiKey, fetch: refuse }).stream(callOf(), neverAborted));
      await assert.rejects(run, { code: 'invalid_model_request', message: 'The destination 10.0.0.1 is refused' });
    });
  });
}

describe('a failure inside the stream', () => {
  const inStream: [provider: ProviderCase['provider'], fixture: string, code: string][] = [
    ['anthropic', 'anthropic-overloaded', 'overloaded'],
    ['openai', 'openai-failed', 'model_error'],
    ['openai-compatible', 'chat-error', 'overloaded'],
  ];
  for (const [provider, fixture, code] of inStream) {
    test(`of ${provider} comes after the text before it`, async () => {
      const wire = providerCases.find((candidate) => candidate.provider === provider);
      assert.ok(wire);
      const { parts, error } = await failWith(wire, { body: providerFixture(fixture) });
      assert.deepEqual(parts, [{ type: 'text-delta', text: 'Well, ' }]);
      assert.equal(error.code, code);
    });
  }

  test('of Anthropic counts as one before the first word too', async () => {
    const wire = providerCases[0];
    assert.ok(wire);
    const body = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';
    assert.equal((await failWith(wire, { body })).error.code, 'overloaded');
  });
});

describe('Google says in its own way', () => {
  const google = providerCases.find((wire) => wire.provider === 'google');
  assert.ok(google);

  test('that a key is bad', async () => {
    const body = JSON.stringify({
      error: { code: 400, message: 'API key not valid. Please pass a valid API key.', status: 'INVALID_ARGUMENT' },
    });
    assert.equal((await failWith(google, { status: 400, body })).error.code, 'byok_key_rejected');
  });

  test('when to come back', async () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '11.4s' }];
    const body = JSON.stringify([{ error: { code: 429, message: 'Quota exceeded', status: 'RESOURCE_EXHAUSTED', details } }]);
    const { error } = await failWith(google, { status: 429, body });
    assert.equal(error.code, 'rate_limited');
    assert.equal(error.retryAfterSeconds, 12);
  });
});

describe('whatever shape an error has,', () => {
  const read = (body: unknown, status?: number) => failureOf({ provider: 'p', apiKey }, readFailure(body, status));
  const shapes: [body: unknown, status: number | undefined, code: string, words: string][] = [
    [{ error: 'model "x" not found' }, 404, 'invalid_model_request', 'model "x" not found'],
    [{ detail: 'Not Found' }, 404, 'invalid_model_request', 'Not Found'],
    ['', 500, 'model_error', 'no reason given'],
    ['', 529, 'overloaded', 'no reason given'],
    [{ error: { message: 'The context window was lost' } }, 500, 'model_error', 'The context window was lost'],
    [{ error: { message: 'Too much', type: 'invalid_request_error' } }, undefined, 'invalid_model_request', 'Too much'],
    [{ error: { message: 'Paid up?', code: 'insufficient_quota' } }, undefined, 'rate_limited', 'Paid up?'],
    [{ error: { message: 'Not now', status_code: 503 } }, undefined, 'overloaded', 'Not now'],
    [{ error: { message: 'Not now', statusCode: 503 } }, undefined, 'overloaded', 'Not now'],
    [{ error: { message: 'Odd', code: 7_001 } }, undefined, 'model_error', 'Odd'],
  ];
  for (const [body, status, code, words] of shapes) {
    test(`${JSON.stringify(body)} with ${status} is ${code}`, () => {
      const { code: found, message } = read(body, status);
      assert.deepEqual([found, message.slice(message.indexOf(': ') + 2)], [code, words]);
    });
  }

  test('its words are cut between characters, so that they can be stored', () => {
    const { message } = read({ error: { message: `${'x'.repeat(499)}👋 and more` } }, 500);
    assert.ok(message.endsWith(`: ${'x'.repeat(499)}\ufffd`), message);
  });

  test('the key is hidden before they are cut: half of it at the end would be told', () => {
    const { message } = read({ error: { message: `${'x'.repeat(490)}${apiKey} is no key` } }, 500);
    assert.ok(message.endsWith(`: ${'x'.repeat(490)}[hidden] i`), message);
  });

  test('a failure without an answer does not tell the key either', () => {
    const { message } = brokenOf({ provider: 'p', apiKey }, new Error(`Invalid header: Bearer ${apiKey}`));
    assert.equal(message, 'The call to p failed: Invalid header: Bearer [hidden]');
  });
});

describe('a time to come back', () => {
  const chat = providerCases.find((wire) => wire.provider === 'openai-compatible');
  assert.ok(chat);
  const times: [headers: Record<string, string>, least: number, most: number][] = [
    [{ 'retry-after': new Date(Date.now() + 60_000).toUTCString() }, 50, 61],
    [{ 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' }, 0, 0],
    [{ 'retry-after-ms': '1500', 'retry-after': '9' }, 2, 2],
    [{ 'retry-after': '0.2' }, 1, 1],
  ];
  for (const [headers, least, most] of times) {
    test(`is read from ${JSON.stringify(headers)}`, async () => {
      const { error } = await failWith(chat, { status: 429, body: '{}', headers });
      assert.ok((error.retryAfterSeconds ?? -1) >= least && (error.retryAfterSeconds ?? 99) <= most, String(error.retryAfterSeconds));
    });
  }

  test('is left out when it cannot be read', async () => {
    const { error } = await failWith(chat, { status: 429, body: '{}', headers: { 'retry-after': 'soon' } });
    assert.equal(error.retryAfterSeconds, undefined);
  });
});

describe('a model that cannot be called says so when it is', () => {
  for (const provider of ['anthropic', 'openai', 'google'] as const) {
    test(`${provider} without a key, whatever the environment holds`, async (t) => {
      const names = ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY'];
      for (const name of names) process.env[name] = 'sk-of-somebody-else';
      t.after(() => {
        for (const name of names) delete process.env[name];
      });
      const model = createModel({ provider, name: 'x', base_url: null, settings: {} }, { apiKey: undefined, fetch: assert.fail });
      await assert.rejects(collect(model.stream(callOf(), neverAborted)), {
        code: 'byok_key_rejected',
        message: `No API key is stored for ${provider}`,
      });
    });
  }

  for (const { provider, name, basePath, text } of providerCases) {
    test(`${provider} at a base_url of the release never gets the operator's key`, async (t) => {
      const server = await serveProvider({ body: providerFixture(text) });
      t.after(() => server.close());
      const config = { provider, name, base_url: server.origin + basePath, settings: {} };
      const model = createModel(config, { apiKey: undefined, operatorsModelKey: 'sk-of-the-operator', fetch: globalThis.fetch });
      if (provider === 'openai-compatible') await collect(model.stream(callOf(), neverAborted));
      else await assert.rejects(collect(model.stream(callOf(), neverAborted)), { code: 'byok_key_rejected' });
      assert.ok(!JSON.stringify(server.requests).includes('sk-of-the-operator'));
    });
  }

  test("the operator's key goes to the provider itself", async () => {
    let sent: Headers | undefined;
    const fetch = async (url: unknown, init?: RequestInit) => {
      assert.equal(String(url), 'https://api.anthropic.com/v1/messages');
      sent = new Headers(init?.headers);
      return new Response(providerFixture('anthropic-text'), { headers: { 'content-type': 'text/event-stream' } });
    };
    const config = { provider: 'anthropic' as const, name: 'claude-sonnet-4-5', base_url: null, settings: {} };
    await collect(
      createModel(config, { apiKey: undefined, operatorsModelKey: 'sk-of-the-operator', fetch }).stream(callOf(), neverAborted),
    );
    assert.equal(sent?.get('x-api-key'), 'sk-of-the-operator');
  });

  test('openai-compatible without a base_url', async () => {
    const config = { provider: 'openai-compatible' as const, name: 'x', base_url: null, settings: {} };
    const model = createModel(config, { apiKey, fetch: assert.fail });
    await assert.rejects(collect(model.stream(callOf(), neverAborted)), { code: 'invalid_model_request' });
  });

  test('google by a name that makes the URL one of another model, in a release of before such names were refused', async () => {
    const name = 'gemini-2.0-flash-lite/../models/gemini-2.5-pro';
    const asked: string[] = [];
    const fetch = async (url: unknown) => {
      asked.push(new URL(String(url)).pathname);
      return new Response(providerFixture('google-text'), { headers: { 'content-type': 'text/event-stream' } });
    };
    const model = createModel({ provider: 'google', name, base_url: null, settings: {} }, { apiKey, fetch });
    const answer = collect(model.stream(callOf(), neverAborted)).then(
      () => 'answered',
      (error) => error.code,
    );
    assert.deepEqual([await answer, asked], ['invalid_model_request', []]);
  });
});
