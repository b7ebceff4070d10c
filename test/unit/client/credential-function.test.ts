// The application's function that gives the credential: what its failures become, and what ends the waiting for it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionError, ParleyClient, ParleyError } from '../../../client/src/index.ts';

const never = new Promise<string>(() => {});

function clientOf(sessionToken: () => string | Promise<string>, timeoutMs = 60_000): ParleyClient {
  const fetch = async () => Response.json({ id: 'ses_1' });
  return new ParleyClient({ baseUrl: 'http://127.0.0.1', sessionToken, agent: 'demo/assistant', fetch, timeoutMs });
}

const withinSeconds = { timeout: 5_000 };

test('a signal ends the waiting for a credential, of its own request alone', withinSeconds, async () => {
  const given = Promise.withResolvers<string>();
  const { managed } = clientOf(() => given.promise);
  const leaving = new AbortController();
  const [left, other] = [managed.get('ses_1', { signal: leaving.signal }), managed.get('ses_1')];
  leaving.abort(new Error('enough'));
  await assert.rejects(left, { message: 'enough' });
  const following = new AbortController();
  const followed = managed.events('ses_1', { signal: following.signal }).next();
  following.abort(new Error('enough of that too'));
  await assert.rejects(followed, { message: 'enough of that too' });
  given.resolve('a');
  assert.equal((await other).id, 'ses_1');
});

test('a credential that does not come in time is an error, and the next request asks for it again', withinSeconds, async () => {
  const answers = [never, 'a'];
  const { managed } = clientOf(() => answers.shift() ?? assert.fail('asked once too often'), 50);
  const expected = (error: unknown) => error instanceof ConnectionError && /gives the credential/.test(error.message);
  await Promise.all([assert.rejects(managed.get('ses_1'), expected), assert.rejects(managed.get('ses_2'), expected)]);
  assert.equal((await managed.get('ses_1')).id, 'ses_1');
});

test('a function that throws before it returns a promise is asked again by the next request', async () => {
  let asked = 0;
  const { managed } = clientOf(() => {
    asked += 1;
    if (asked === 1) throw new Error('not ready');
    return 'a';
  });
  await assert.rejects(managed.get('ses_1'), { message: 'not ready' });
  assert.equal((await managed.get('ses_1')).id, 'ses_1');
});

test('following a log ends when the function says that it has no credential; its other failures are retried', withinSeconds, async () => {
  const failures = [new TypeError('Failed to fetch'), new ConnectionError('/token could not be reached'), new ParleyError('Signed out')];
  const { managed } = clientOf(() => Promise.reject(failures.shift()));
  const states: string[] = [];
  const following = managed.events('ses_1', { onConnection: (state) => states.push(state) }).next();
  await assert.rejects(following, { name: 'ParleyError', message: 'Signed out' });
  assert.deepEqual([states, failures], [['lost'], []]);
});
