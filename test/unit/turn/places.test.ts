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
        places.take(orgId).leave();
      } catch {
        return taken;
      }
      running.set(`${orgId}-${running.size}`, { orgId });
    }
    return taken;
  };
  return { running, places, fill };
}

test('an organization that is alone has every place, and turns that are being admitted count like those that run', () => {
  const { running, places } = room(3);
  running.set('turn', { orgId: hog });
  const [second] = [places.take(hog), places.take(hog)];
  assert.throws(() => places.take(hog), { kind: 'unavailable', retryAfterSeconds: 1 });
  second.leave();
  second.leave();
  places.take(hog).leave();
  places.take(hog);
  assert.throws(() => places.take(hog), { kind: 'unavailable' });
});

test('beside others the last tenth is for organizations that have less than an equal share', () => {
  const { running, places, fill } = room(20);
  places.take(other).leave();
  assert.equal(fill(hog), 18);
  assert.equal(fill(other), 2);
  assert.equal(fill(third), 0, 'all are taken');
  for (const [id] of [...running].filter(([, { orgId }]) => orgId === hog).slice(0, 1)) running.delete(id);
  assert.equal(fill(hog), 0, 'the next that is free goes to who was turned away');
  assert.equal(fill(third), 1);
});

test('the last tenth is rounded down, and who holds an equal share already gets none of it', () => {
  const { places, fill } = room(19);
  places.take(other).leave();
  assert.equal(fill(hog), 18);
  const even = room(20);
  even.places.take(other).leave();
  for (let turn = 0; turn < 10; turn += 1) even.running.set(`hog ${turn}`, { orgId: hog });
  for (let turn = 0; turn < 8; turn += 1) even.running.set(`third ${turn}`, { orgId: third });
  assert.throws(() => even.places.take(hog), { kind: 'unavailable' });
  even.running.delete('hog 0');
  even.running.set('third 8', { orgId: third });
  even.places.take(hog);
});

test('turns that are being admitted count for the share too', () => {
  const { places } = room(20);
  places.take(other).leave();
  for (let turn = 0; turn < 18; turn += 1) places.take(hog);
  assert.throws(() => places.take(hog), { kind: 'unavailable' });
  places.take(other).leave();
});

test('an organization that has not asked for a turn for a minute no longer counts as one of the others', () => {
  const { running, places } = room(20);
  for (let turn = 0; turn < 19; turn += 1) running.set(`${turn}`, { orgId: hog });
  places.take(other, 0).leave();
  assert.throws(() => places.take(hog, 59_999), { kind: 'unavailable' });
  places.take(hog, 60_000).leave();
  places.take(other, 60_001).leave();
  assert.throws(() => places.take(hog, 120_000), { kind: 'unavailable' }, 'who asks again counts for another minute');
  places.take(hog, 120_001).leave();
});
