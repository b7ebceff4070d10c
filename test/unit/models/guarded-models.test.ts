import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { createGuard } from '../../../src/destination/guard.ts';
import { createModel } from '../../../src/harness/models/create-model.ts';
import { providerFixture, serveProvider } from '../../support/provider-server.ts';
import { apiKey, callOf, collect, neverAborted, providerCases, textOf } from './provider-cases.ts';

const liftedBy = 'PARLEY_ALLOW_PRIVATE_UPSTREAMS';
const open = createGuard({ allowPrivate: true, liftedBy });
const closed = createGuard({ allowPrivate: false, liftedBy });

for (const { provider, name, basePath, text } of providerCases) {
  describe(`${provider} through the destination guard`, () => {
    const modelAt = (origin: string, guard = open) =>
      createModel({ provider, name, base_url: origin + basePath, settings: {} }, { apiKey, ...guard });

    test('streams', async (t) => {
      const server = await serveProvider({ body: providerFixture(text), pieceBytes: 7 });
      t.after(() => server.close());
      assert.equal(textOf(await collect(modelAt(server.origin).stream(callOf(), neverAborted))), 'Grüße, 世界 👋');
    });

    test('says that its stream broke', async (t) => {
      const body = providerFixture(text);
      const server = await serveProvider({ body: body.slice(0, body.length / 2), cut: true });
      t.after(() => server.close());
      await assert.rejects(collect(modelAt(server.origin).stream(callOf(), neverAborted)), { code: 'broken_stream' });
      server.close();
      await assert.rejects(collect(modelAt(server.origin).stream(callOf(), neverAborted)), { code: 'broken_stream' });
    });

    test('ends with the reason of its signal', async (t) => {
      const server = await serveProvider({ body: '', hang: true });
      t.after(() => server.close());
      const stop = new AbortController();
      const run = collect(modelAt(server.origin).stream(callOf(), stop.signal));
      while (server.requests.length === 0) await new Promise(setImmediate);
      const reason = new Error('interrupted');
      stop.abort(reason);
      await assert.rejects(run, reason);
    });

    test('names the setting that would let it out, and is not tried again', async () => {
      const run = collect(modelAt('https://127.0.0.1:8443', closed).stream(callOf(), neverAborted));
      await assert.rejects(run, { code: 'invalid_model_request', retryable: false, message: /PARLEY_ALLOW_PRIVATE_UPSTREAMS=1/ });
    });
  });
}
