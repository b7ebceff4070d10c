import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import { RateLimit } from '../../../src/load/rate-limit.ts';
import { defaultRoom, WaitingRoom } from '../../../src/load/waiting-room.ts';
import { createLogger } from '../../../src/logger.ts';
import { handleError } from '../../../src/surfaces/shared/server/handle-error.ts';
import { Refusals } from '../../../src/surfaces/shared/server/refusals.ts';

test('one that is over its rate limit while there is no room is told 429, and counts as none that was shed', async () => {
  const waitingRoom = new WaitingRoom({ ...defaultRoom, places: 1, maxLine: 1, patienceMs: 60_000, placeLastsMs: 60_000 });
  const refusals = new Refusals({ rateLimit: new RateLimit(0.001, 2), waitingRoom });
  const server = fastify();
  server.setErrorHandler(handleError(createLogger('silent')));
  server.addHook('onRequest', refusals.hook);
  server.get('/', async (request) => {
    const refusal = waitingRoom.refusalOf(1);
    if (refusal === undefined) return 'served';
    refusals.remember(request, 1, refusal);
    throw refusal;
  });
  const ask = () => server.inject({ url: '/', headers: { authorization: 'Bearer someone' } });

  const place = await waitingRoom.enter(1, () => false);
  const waiting = waitingRoom.enter(1, () => false);
  const answers = [await ask(), await ask(), await ask(), await ask(), await ask()];
  assert.deepEqual(
    answers.map(({ statusCode }) => statusCode),
    [503, 503, 503, 429, 429],
  );
  assert.match(String(answers[2]?.headers['retry-after']), /^[1-3]$/);
  assert.equal(waitingRoom.shed, 3);

  place.leave();
  (await waiting).leave();
  assert.equal((await ask()).body, 'served', 'with room again nobody is told what another was');
});
