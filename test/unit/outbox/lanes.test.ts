import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LaneLimits, Lanes } from '../../../src/outbox/lanes.ts';

const limits: LaneLimits = { perLane: 4, healthy: 8, troubled: 2, slowMs: 60_000 };
/** Every attempt of these hangs from its beginning. */
const slow: LaneLimits = { ...limits, slowMs: -1 };

test('an attempt that hangs takes no slot of those that answer, and its destination gets no more attempts', () => {
  const well = new Lanes(limits);
  well.begin('1', 'endpoint 1', 7);
  assert.deepEqual(well.loads(), [{ lane: 'endpoint 1', running: 1, troubled: false }]);
  assert.deepEqual(well.slots(), { perLane: 4, healthy: 7, troubled: 2 });
  assert.deepEqual(well.orgLoads(), [{ org_id: 7, healthy: 1, troubled: 0 }]);
  const hanging = new Lanes(slow);
  hanging.begin('1', 'endpoint 1', 7);
  assert.deepEqual(hanging.loads(), [{ lane: 'endpoint 1', running: 1, troubled: true }]);
  assert.deepEqual(hanging.slots(), { perLane: 4, healthy: 8, troubled: 1 });
  assert.deepEqual(hanging.orgLoads(), [{ org_id: 7, healthy: 0, troubled: 1 }]);
});

test('a destination that failed is troubled until an attempt succeeds', () => {
  const lanes = new Lanes(limits);
  lanes.begin('1', 'endpoint 1', 7);
  lanes.end('1', false);
  assert.deepEqual(lanes.loads(), [{ lane: 'endpoint 1', running: 0, troubled: true }]);
  lanes.begin('2', 'endpoint 1', 7);
  assert.deepEqual(lanes.slots(), { perLane: 4, healthy: 8, troubled: 1 });
  lanes.end('2', true);
  assert.deepEqual(lanes.loads(), []);
});

test('when far more attempts hang than there is room for, each destination is tried with one', () => {
  const lanes = new Lanes(slow);
  for (const id of ['1', '2', '3', '4']) lanes.begin(id, `endpoint ${id}`, 7);
  assert.deepEqual(lanes.slots(), { perLane: 4, healthy: 8, troubled: 0 });
  lanes.begin('5', 'endpoint 5', 7);
  assert.deepEqual(lanes.slots(), { perLane: 1, healthy: 8, troubled: 0 });
});
