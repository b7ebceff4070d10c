// A release's base_url may name any server: what it sends must neither fill the memory nor be taken off what was used.
import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { createGuard } from '../../../src/destination/guard.ts';
import { createModel } from '../../../src/harness/models/create-model.ts';
import { maxAnswerCharacters } from '../../../src/harness/models/model-failure.ts';
import { serveLocally } from '../../support/local-server.ts';
import { providerFixture } from '../../support/provider-server.ts';
import { until } from '../../support/until.ts';
import { apiKey, callOf, collect, finishOf, neverAborted, type ProviderCase, providerCases } from './provider-cases.ts';

function modelAnswering({ provider, name }: ProviderCase, body: Iterable<string>) {
  const bytes = new TextEncoderStream();
  const headers = { 'content-type': 'text/event-stream' };
  const fetch = async () => new Response(ReadableStream.from(body).pipeThrough(bytes), { headers });
  return createModel({ provider, name, base_url: 'http://127.0.0.1/v1', settings: {} }, { apiKey, fetch });
}

for (const wire of providerCases) {
  describe(wire.provider, () => {
    const events = providerFixture(wire.text).split(/(?<=\n\n)/);
    const begins = events.findIndex((event) => event.includes('Grüße, '));

    test('an answer that does not end is cut off before it fills the memory', async () => {
      const word = events[begins]?.replace('Grüße, ', 'x'.repeat(2 ** 20)) ?? '';
      let sent = 0;
      function* endless() {
        yield* events.slice(0, begins);
        for (; sent < 64; sent += 1) yield word;
      }
      await assert.rejects(collect(modelAnswering(wire, endless()).stream(callOf(), neverAborted)), { code: 'model_error' });
      assert.ok(sent * 2 ** 20 < 4 * maxAnswerCharacters);
    });

    test('comments are read no further once the call is aborted, although all of them may have come', async () => {
      const comments = `: ${'x'.repeat(2 ** 20)}\n\n`;
      const stop = new AbortController();
      const reason = new Error('seen enough');
      let sent = 0;
      function* endless() {
        for (; sent < 256; sent += 1) {
          if (sent === 3) stop.abort(reason);
          yield comments;
        }
      }
      await assert.rejects(collect(modelAnswering(wire, endless()).stream(callOf(), stop.signal)), reason);
      assert.ok(sent < 20, `${sent} MiB were read`);
    });

    test('a stream that goes on after what cannot be read is closed', async (t) => {
      let open = 0;
      const server = await serveLocally((_request, response) => {
        open += 1;
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"type\n\n');
        const goingOn = setInterval(() => response.write(': \n\n'), 50);
        response.on('close', () => {
          clearInterval(goingOn);
          open -= 1;
        });
      });
      t.after(() => server.close());
      const release = { provider: wire.provider, name: wire.name, base_url: `${server.origin}/v1`, settings: {} };
      const model = createModel(release, { apiKey, ...createGuard({ allowPrivate: true }) });
      await assert.rejects(collect(model.stream(callOf(), neverAborted)));
      await until(async () => open === 0, 5_000);
    });

    for (const count of ['-5', '1.5', '1e300', '"7"']) {
      test(`a report of ${count} tokens is none`, async () => {
        const field = /"(\w*(?:tokens|TokenCount))": ?\d+/g;
        const reported = events.map((event) => event.replace(field, `"$1":${count}`));
        const parts = await collect(modelAnswering(wire, reported).stream(callOf(), neverAborted)).catch(() => []);
        // Or the package refuses the answer as a whole.
        const usage = parts.length === 0 ? { input: 0, output: 0, cachedInput: 0 } : finishOf(parts)?.usage;
        for (const tokens of Object.values(usage ?? assert.fail())) assert.ok(Number.isInteger(tokens) && tokens >= 0 && tokens < 1_000);
      });
    }
  });
}

test('an event that does not end is cut off, also where a package reads it', async () => {
  const wire = providerCases.find(({ provider }) => provider === 'anthropic') ?? assert.fail();
  const piece = 'x'.repeat(2 ** 20);
  let sent = 0;
  function* endless() {
    yield 'data: ';
    for (; sent < 512; sent += 1) yield piece;
  }
  await assert.rejects(collect(modelAnswering(wire, endless()).stream(callOf(), neverAborted)), { code: 'model_error' });
  assert.ok(sent < 256);
});

test('comments without end are cut off', async () => {
  const wire = providerCases.find(({ provider }) => provider === 'openai-compatible') ?? assert.fail();
  const comments = `: ${'x'.repeat(2 ** 20)}\n\n`;
  let sent = 0;
  function* endless() {
    for (; sent < 256; sent += 1) yield comments;
  }
  await assert.rejects(collect(modelAnswering(wire, endless()).stream(callOf(), neverAborted)), { code: 'model_error' });
  assert.ok(sent < 200);
});

test('a body that is read whole, of a failure or of an answer in one piece, is not read without end', async () => {
  for (const [status, most] of [
    [500, 8],
    [200, 16],
  ] as const) {
    let sent = 0;
    async function* endless() {
      for (; sent < 64; sent += 1) yield Buffer.alloc(2 ** 20, 'x');
    }
    const fetch = async () => new Response(ReadableStream.from(endless()), { status });
    const model = createModel({ provider: 'openai-compatible', name: 'x', base_url: 'http://x', settings: {} }, { apiKey, fetch });
    await assert.rejects(collect(model.stream({ ...callOf(), whole: true }, neverAborted)));
    assert.ok(sent < most, `${sent} MiB`);
  }
});

test('an answer with more calls than a turn could run is refused', async () => {
  const wire = providerCases.find(({ provider }) => provider === 'openai-compatible') ?? assert.fail();
  function* calls() {
    for (let index = 0; index < 2_000; index += 1) {
      const call = { index, id: `call_${index}`, function: { name: 'bash', arguments: '{}' } };
      yield `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] })}\n\n`;
    }
    yield 'data: [DONE]\n\n';
  }
  await assert.rejects(collect(modelAnswering(wire, calls()).stream(callOf(), neverAborted)), { code: 'model_error' });
});

test('the calls of one piece are refused before each is looked for among all the others', async () => {
  const wire = providerCases.find(({ provider }) => provider === 'openai-compatible') ?? assert.fail();
  const calls = Array.from({ length: 60_000 }, (_, index) => ({ index, function: { name: 'bash' } }));
  const piece = `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: calls } }] })}\n\n`;
  const began = performance.now();
  await assert.rejects(collect(modelAnswering(wire, [piece]).stream(callOf(), neverAborted)), { code: 'model_error' });
  assert.ok(performance.now() - began < 2_000);
});

for (const wire of providerCases) {
  test(`the code of a failure that ${wire.provider} reports is read in a moment, however long it is`, async () => {
    const code = 'exceed'.repeat(100_000);
    const failure = { type: 'error', error: { type: code, code, message: 'no', param: null }, sequence_number: 0 };
    const began = performance.now();
    await assert.rejects(collect(modelAnswering(wire, [`data: ${JSON.stringify(failure)}\n\n`]).stream(callOf(), neverAborted)));
    assert.ok(performance.now() - began < 2_000);
  });
}
