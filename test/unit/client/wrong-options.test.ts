// What a client cannot work with is said at once, and not as if the server could not be reached.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthenticationError, ParleyClient } from '../../../client/src/index.ts';

const baseUrl = 'http://127.0.0.1:8080';

test('a URL that no request can be sent to is refused, and a path below the origin of a page is not', () => {
  for (const wrong of ['127.0.0.1:8080', 'localhost:8080', undefined, 'http://', 'http://127.0.0.1:99999'])
    assert.throws(
      () => new ParleyClient({ baseUrl: wrong as string, apiKey: 'a' }),
      new TypeError(`The baseUrl must be a URL such as http://127.0.0.1:8080, not "${wrong}"`),
    );
  const signedIn = () => new ParleyClient({ baseUrl: 'http://ann:secret@127.0.0.1', apiKey: 'a' });
  assert.throws(signedIn, new TypeError('The baseUrl must not have a user name or a password'));
  for (const right of [`${baseUrl}/parley/`, 'http://[::1]:8080', '/', '/parley', '', '//127.0.0.1'])
    assert.ok(new ParleyClient({ baseUrl: right, apiKey: 'a' }));
});

test('a credential that no header can carry is refused, one with the line break of its file is not', async () => {
  for (const wrong of ['svc_live_…', 'svc_live_0123 4567'])
    for (const credential of [{ apiKey: wrong }, { sessionToken: wrong }])
      assert.throws(
        () => new ParleyClient({ baseUrl, ...credential }),
        new TypeError('The apiKey or sessionToken has characters that no credential has'),
      );
  const sent: (string | null)[] = [];
  const fetch = async (_url: unknown, init?: RequestInit) => {
    sent.push(new Headers(init?.headers).get('authorization'));
    return Response.json({ id: 'ses_1' });
  };
  await new ParleyClient({ baseUrl, apiKey: 'from-a-file\n', fetch }).sessions.create();
  assert.deepEqual(sent, ['Bearer from-a-file']);
});

test('a function that gives no credential, or one that no header can carry, is asked once', async () => {
  let asked = 0;
  const { managed } = new ParleyClient({
    baseUrl,
    agent: 'demo/assistant',
    sessionToken: async () => {
      asked += 1;
      return asked === 1 ? JSON.parse('{}').token : 'a “token”';
    },
  });
  await assert.rejects(managed.create(), new AuthenticationError(401, 'The function that gives the credential gave none'));
  const strange = new AuthenticationError(401, 'The function that gives the credential gave one with characters that no credential has');
  await assert.rejects(managed.create(), strange);
  await assert.rejects(managed.events('ses_none').next(), strange);
  assert.equal(asked, 3);
});

test('an answer that is not of a Parley server names the URL', async () => {
  const fetch = async () => new Response('<html>Sign in</html>');
  await assert.rejects(
    new ParleyClient({ baseUrl, apiKey: 'a', fetch }).sessions.create(),
    /is the baseUrl http:\/\/127\.0\.0\.1:8080 right/,
  );
});
