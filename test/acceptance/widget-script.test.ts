// The widget's script as pages of any origin load it.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { startApp } from '../support/app.ts';
import { buildWidget } from '../support/build-widget.ts';

const script = buildWidget();
const app = await startApp({ after });
const path = '/widget/parley-chat.js';
const anonymous = { authorization: '' };

test('anybody may load the script of the widget, from any origin, without a credential', async () => {
  const answer = await app.request('GET', path, undefined, { ...anonymous, origin: 'https://shop.example' });
  assert.equal(answer.status, 200);
  assert.equal(answer.text, script.toString());
  const { etag, ...headers } = answer.headers;
  assert.match(String(etag), /^W\/"[\w-]{22}"$/);
  assert.equal(headers['content-type'], 'text/javascript; charset=utf-8');
  assert.equal(headers['access-control-allow-origin'], '*');
  assert.equal(headers['cross-origin-resource-policy'], 'cross-origin');
  assert.equal(headers['cache-control'], 'public, max-age=300, stale-while-revalidate=86400');
  assert.equal(headers.vary, 'accept-encoding');
});

test('the script of the widget is compressed for who takes that, and not sent again to who has it', async () => {
  const compressed = await app.server.inject({ url: path, headers: { 'accept-encoding': 'br, gzip' } });
  assert.equal(compressed.headers['content-encoding'], 'gzip');
  assert.equal(gunzipSync(compressed.rawPayload).toString(), script.toString());
  for (const refused of ['gzip;q=0', 'br, gzip ; q=0.000, identity', 'br']) {
    const plain = await app.server.inject({ url: path, headers: { 'accept-encoding': refused } });
    assert.equal(plain.headers['content-encoding'], undefined, refused);
    assert.ok(plain.payload === script.toString(), refused);
  }
  for (const taken of ['gzip;q=0.5', 'GZIP', 'br;q=0, gzip']) {
    const { headers } = await app.server.inject({ url: path, headers: { 'accept-encoding': taken } });
    assert.equal(headers['content-encoding'], 'gzip', taken);
  }
  const again = await app.request('GET', path, undefined, { ...anonymous, 'if-none-match': String(compressed.headers.etag) });
  assert.equal(again.status, 304);
  assert.equal(again.text, '');
  assert.equal((await app.request('GET', path, undefined, { ...anonymous, 'if-none-match': 'W/"other"' })).status, 200);
});

test('no other file is served beside the script of the widget', async () => {
  assert.equal((await app.request('GET', '/widget/')).text, '{"detail":"Not Found"}');
  assert.equal((await app.request('GET', '/widget/../package.json')).status, 404);
});
