import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import fastify from 'fastify';
import { RateLimit } from '../../../src/load/rate-limit.ts';
import { defaultRoom, WaitingRoom } from '../../../src/load/waiting-room.ts';
import { handleError } from '../../../src/surfaces/shared/server/handle-error.ts';
import { Refusals } from '../../../src/surfaces/shared/server/refusals.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';

test('a client that is over its rate limit while there is no room is told 429, and does not count as shed', async (t) => {
  const waitingRoom = new WaitingRoom({ ...defaultRoom, places: 1, maxLine: 1, patienceMs: 60_000, placeLastsMs: 60_000 });
  const rateLimit = new RateLimit(0.001, 3);
  const logger = createLogger('silent');
  const metrics = createMetrics();
  const refusals = new Refusals({ rateLimit, waitingRoom, metrics, logger });
  let isLimited = true;
  const server = fastify({
    serverFactory: (serve) => createServer((request, response) => refusals.answer(request, response) || serve(request, response)),
  });
  server.setErrorHandler(handleError(logger));
  server.get('/', async (request) => {
    if (isLimited) rateLimit.take(1);
    const refusal = waitingRoom.refusalOf(1);
    if (refusal === undefined) return 'served';
    refusals.remember(request, 1, refusal);
    throw refusal;
  });
  const url = await server.listen();
  t.after(() => server.close());
  const ask = () => fetch(url, { headers: { authorization: 'Bearer someone' } });

  const place = await waitingRoom.enter(1, () => false);
  const waiting = waitingRoom.enter(1, () => false);
  const answers = [await ask(), await ask(), await ask(), await ask(), await ask()];
  assert.deepEqual(
    answers.map(({ status }) => status),
    [503, 503, 503, 429, 429],
  );
  assert.equal(waitingRoom.shed, 3);
  const [first, second] = answers;
  assert.ok(first && second);
  assert.equal(await second.text(), await first.text(), 'what one was told is what the next is told');
  assert.match(second.headers.get('retry-after') ?? '', /^[1-3]$/);
  assert.equal(second.headers.get('x-should-retry'), first.headers.get('x-should-retry'));
  assert.match(second.headers.get('x-request-id') ?? '', /^rid_/);
  const counted = await metrics.read();
  assert.match(counted, /parley_http_request_seconds_count\{method="GET",route="\/",status="503"\} 2\n/);

  isLimited = false;
  place.leave();
  (await waiting).leave();
  assert.equal(await (await ask()).text(), 'served', 'with room again nobody is told what another was');
});
