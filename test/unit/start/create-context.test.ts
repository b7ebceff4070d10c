// Own process: it counts the timers of the process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Directory } from '../../../src/accounts/directory.ts';
import { Materializer } from '../../../src/accounts/materialize.ts';
import { loadConfig } from '../../../src/config.ts';
import { Courier } from '../../../src/outbox/courier.ts';
import { createContext } from '../../../src/start/create-context.ts';
import { createDatabase } from '../../support/engine.ts';

test('a start that fails halfway closes what it had opened, and nothing keeps the process running', async (t) => {
  const { settings, remove } = await createDatabase();
  t.after(remove);
  const timers = () => process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
  const before = timers();
  t.mock.method(Courier.prototype, 'start', () => Promise.reject(new Error('the database went away')));
  const closing = [
    t.mock.method(Courier.prototype, 'stop'),
    t.mock.method(Materializer.prototype, 'close'),
    t.mock.method(Directory.prototype, 'close'),
  ];
  await assert.rejects(createContext(loadConfig({ ...settings, PARLEY_LOG_LEVEL: 'error' })), /the database went away/);
  assert.deepEqual(
    closing.map(({ mock }) => mock.callCount()),
    [1, 1, 1],
  );
  assert.equal(timers(), before);
});
