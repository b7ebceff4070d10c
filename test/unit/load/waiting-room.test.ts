import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextPass, setTimeout as sleep } from 'node:timers/promises';
import { defaultRoom, type Place, WaitingRoom } from '../../../src/load/waiting-room.ts';

const stays = () => false;

/** Asks for a place and writes down when it was given. */
function visit(room: WaitingRoom, orgId: number, order: string[], name = String(orgId), isGone = stays): Promise<Place> {
  return Promise.resolve(room.enter(orgId, isGone)).then((place) => {
    order.push(name);
    return place;
  });
}

test('whoever comes alone takes every place, and the next one waits for one to be left', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 3, placesBesideOthers: 1 });
  const order: string[] = [];
  const alone = () => visit(room, 1, order);
  const places = await Promise.all([alone(), alone(), alone()]);
  const waiting = alone();
  await nextPass();
  assert.deepEqual([order.length, room.working, room.waiting], [3, 3, 1]);
  places[0]?.leave();
  places[0]?.leave();
  (await waiting).leave();
  assert.deepEqual([order.length, room.working, room.waiting], [4, 2, 0]);
});

test('who comes when a place was just left does not overtake who waits for it', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1 });
  const order: string[] = [];
  const first = await visit(room, 1, order, 'first');
  const second = visit(room, 1, order, 'second').then((place) => place.leave());
  first.leave();
  const third = visit(room, 1, order, 'third').then((place) => place.leave());
  await Promise.all([second, third]);
  assert.deepEqual(order, ['first', 'second', 'third']);
});

test('organizations take turns, however long one of their lines is', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1 });
  const order: string[] = [];
  const first = await visit(room, 1, order);
  const later = [1, 1, 1, 1, 2, 2, 3].map((orgId) => visit(room, orgId, order).then((place) => place.leave()));
  first.leave();
  await Promise.all(later);
  assert.deepEqual(order, ['1', '1', '2', '3', '1', '2', '1', '1']);
});

test('an organization that floods beside others is served one by one, with a pause after each, the longer the line; one that does not takes its few places', async () => {
  const room = new WaitingRoom({
    ...defaultRoom,
    places: 32,
    placesBesideOthers: 4,
    floodsFrom: 8,
    pausesAfterMs: 0,
    waitingPerPauseMs: 1,
    maxPauseMs: 30,
  });
  const order: string[] = [];
  const guest = await visit(room, 2, order);
  const crowd = Array.from({ length: 40 }, () => visit(room, 1, order));
  assert.equal(room.working, 5, 'four of the crowd came before it had a line');
  // Left a second time, which frees no place of another.
  for (const place of [...(await Promise.all(crowd.slice(0, 4))), await crowd[0]]) place?.leave();
  await nextPass();
  assert.equal(room.working, 1, 'the guest: the crowd pauses');
  await crowd[4];
  assert.equal(room.working, 2, 'the guest, and one of the crowd');
  const more = await Promise.all([visit(room, 2, order), visit(room, 2, order), visit(room, 2, order)]);
  assert.equal(room.working, 5, 'the guest waits for nobody');
  for (const place of [guest, ...more]) place.leave();
  for (const place of crowd.slice(4)) (await place).leave();
  assert.deepEqual([room.working, room.waiting], [0, 0]);
});

test('a burst beside others is served one by one without a pause', { timeout: 10_000 }, async () => {
  const room = new WaitingRoom({ ...defaultRoom, pausesAfterMs: 60_000, waitingPerPauseMs: 0.001, maxPauseMs: 60_000 });
  const order: string[] = [];
  const guest = await visit(room, 2, order);
  const crowd = Array.from({ length: 40 }, () => visit(room, 1, order));
  for (const place of crowd) (await place).leave();
  guest.leave();
  assert.deepEqual([room.working, room.waiting], [0, 0]);
});

test('a line whose first has waited too long is closed: 503 with a time to come back, and only for its organization', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1, patienceMs: 20 });
  const order: string[] = [];
  const first = await visit(room, 1, order);
  const waiting = visit(room, 1, order);
  await sleep(40);
  const seconds = new Set<number | undefined>();
  for (let index = 0; index < 50; index += 1)
    assert.throws(
      () => room.enter(1, stays),
      (error: { kind: string; retryAfterSeconds?: number }) => {
        seconds.add(error.retryAfterSeconds);
        return error.kind === 'unavailable';
      },
    );
  assert.deepEqual([...seconds].toSorted(), [1, 2, 3], 'not all come back in the same second');
  assert.equal(room.shed, 50);
  assert.deepEqual([room.isClosedTo(1), room.isClosedTo(2), room.shed], [true, false, 50]);
  assert.equal(room.refusalOf(1)?.kind, 'unavailable');
  assert.deepEqual([room.refusalOf(2), room.shed], [undefined, 51]);
  const other = visit(room, 2, order);
  first.leave();
  (await waiting).leave();
  (await other).leave();
});

test('lines are bounded, each and all together', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1, maxLine: 2, maxWaiting: 3 });
  const order: string[] = [];
  const first = await visit(room, 1, order);
  const waiting = [visit(room, 1, order), visit(room, 1, order)];
  assert.throws(() => room.enter(1, stays), { kind: 'unavailable' });
  waiting.push(visit(room, 2, order));
  assert.throws(() => room.enter(3, stays), { kind: 'unavailable' });
  first.leave();
  await Promise.all(waiting.map((place) => place.then((given) => given.leave())));
});

test('a place is not kept for a client that has left, nor for one that waits for something else', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1, placeLastsMs: 30 });
  const order: string[] = [];
  const slow = await visit(room, 1, order, 'slow');
  const gone = visit(room, 1, order, 'gone', () => true);
  const next = visit(room, 1, order, 'next');
  await assert.rejects(gone, { kind: 'unavailable' });
  (await next).leave();
  assert.deepEqual(order, ['slow', 'next'], 'though the slow one has not left');
  slow.leave();
  assert.equal(room.working, 0);
});

test('a place that has not been held for long is kept, though others wait', async () => {
  const room = new WaitingRoom({ ...defaultRoom, places: 1, placeLastsMs: 60_000 });
  const order: string[] = [];
  const first = await visit(room, 1, order);
  const second = visit(room, 1, order);
  await sleep(200);
  assert.deepEqual([room.working, room.waiting], [1, 1]);
  first.leave();
  (await second).leave();
});
