// The web servers of the examples, which readers copy, when Parley is not well.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startExample } from '../support/example.ts';
import { serveLocally } from '../support/local-server.ts';

for (const name of ['widget', 'managed-agents']) {
  test(`the server of examples/${name} answers 502, and goes on, when Parley ends in the middle of a token`, async (t) => {
    const parley = await serveLocally((_request, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"token":', () => response.destroy());
    });
    t.after(() => parley.close());
    const site = await startExample(t, name, parley.origin);
    for (const attempt of ['first', 'second']) {
      const answer = await fetch(`${site}/token`, { method: 'POST', headers: { cookie: 'visitor=ada' } });
      assert.equal(answer.status, 502, attempt);
    }
  });
}
