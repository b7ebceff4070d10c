import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import type { OpenStreams } from '../../../src/surfaces/shared/streams/open-streams.ts';
import { drained } from '../../../src/surfaces/shared/streams/sse.ts';

test('a client that leaves before it has read everything is not waited for, nor counted as stalled', async () => {
  const response = Object.assign(new EventEmitter(), { destroyed: false, socket: null, destroy() {} });
  const streams = { stallMs: 60_000, stalledCount: 0 };
  const waiting = drained(response as unknown as ServerResponse, undefined, streams as OpenStreams);
  response.destroyed = true;
  response.emit('close');
  await waiting;
  assert.equal(streams.stalledCount, 0);
  assert.deepEqual(response.eventNames(), []);
});
