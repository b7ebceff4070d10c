import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TurnPlaces } from '../../../src/turn/places.ts';

const [hog, other, third] = [1, 2, 3];

/** Turns that run, and how many of an organization find room for another. */
function room(max: number) {
  const running = new Map<string, { orgId: number }>();
  const places = new TurnPlaces(max, running);
  const fill = (orgId: number): number => {
    let taken = 0;
    for (; taken <= max; taken += 1) {
      try {
        places.assertRoom(orgId);
      } catch {
        return taken;
      }
      running.set(`${orgId}-${running.size}`, { orgId });
    }
    return taken;
  };
  return { running, places, fill };
}

test('who is alone has every place, and what is being admitted counts as much as what runs', () => {
  const { running, places } = room(3);
  running.set('turn', { orgId: hog });
  const [second] = [places.take(hog), places.take(hog)];
  assert.throws(() => places.assertRoom(hog), { kind: 'unavailable', retryAfterSeconds: 1 });
  second.leave();
  second.leave();
  places.assertRoom(hog);
  places.take(hog);
  assert.throws(() => places.assertRoom(hog), { kind: 'unavailable' });
});

test('beside others the last tenth is for who has less than an equal share', () => {
  const { running, places, fill } = room(20);
  places.assertRoom(other);
  assert.equal(fill(hog), 18);
  assert.equal(fill(other), 2);
  assert.equal(fill(third), 0, 'all are taken');
  for (const [id] of [...running].filter(([, { orgId }]) => orgId === hog).slice(0, 1)) running.delete(id);
  assert.equal(fill(hog), 0, 'the next that is free goes to who was turned away');
  assert.equal(fill(third), 1);
});

test('what is being admitted counts for the share too', () => {
  const { places } = room(20);
  places.assertRoom(other);
  for (let turn = 0; turn < 18; turn += 1) places.take(hog);
  assert.throws(() => places.assertRoom(hog), { kind: 'unavailable' });
  places.assertRoom(other);
});

test('who has not asked for a minute is no longer about', () => {
  const { running, places } = room(20);
  for (let turn = 0; turn < 19; turn += 1) running.set(`${turn}`, { orgId: hog });
  places.assertRoom(other, 0);
  assert.throws(() => places.assertRoom(hog, 59_999), { kind: 'unavailable' });
  places.assertRoom(hog, 60_000);
  places.assertRoom(other, 60_001);
  assert.throws(() => places.assertRoom(hog, 120_000), { kind: 'unavailable' }, 'who asks again stays about for longer');
  places.assertRoom(hog, 120_001);
});
