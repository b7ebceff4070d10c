// What no client library sends, byte for byte over bare sockets: each is answered or cut, none with a 5xx, and the server goes on.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startApp } from '../support/app.ts';
import { type RawAnswer, sendBytes } from '../support/raw-requests.ts';

const app = await startApp({ after }, { settings: { PARLEY_REQUEST_TIMEOUT_MS: '4000', PARLEY_LOG_LEVEL: 'error' } });
const port = Number(new URL(await app.listen()).port);
const created = await app.request('POST', '/v1/sessions', { session_id: 'bytes' });
assert.equal(created.status, 200, created.text);

const key = `Authorization: Bearer ${app.apiKey}`;
const messages = '/v1/sessions/bytes/messages';
const json = 'Content-Type: application/json';

/** A request for a message, whose body is these bytes. */
function body(bytes: Buffer | string, headers: string[] = [json]): Buffer {
  const content = Buffer.from(bytes);
  return request(`POST ${messages} HTTP/1.1`, [key, ...headers, `Content-Length: ${content.length}`], content);
}

function request(line: string, headers: string[] = [key], content: Buffer | string = ''): Buffer {
  return Buffer.concat([Buffer.from(`${[line, 'Host: x', ...headers].join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(content)]);
}

const get = (path: string, headers?: string[]) => request(`GET ${path} HTTP/1.1`, headers);
const list = '/demo/assistant/v1/sessions';
const chunked = (content: string, more: string[] = []) =>
  request(`POST ${messages} HTTP/1.1`, [key, json, 'Transfer-Encoding: chunked', ...more], content);
const nested = (open: string, close: string, depth: number) => `{"text":"a","x":${open.repeat(depth)}1${close.repeat(depth)}}`;
const bytes = (...values: number[]) => Buffer.from(values);
const text = (value: Buffer) => Buffer.concat([Buffer.from('{"text":"'), value, Buffer.from('"}')]);

const vectors: [name: string, bytes: Buffer | string, ...statuses: number[]][] = [
  // Strings
  ['NUL, escaped', body('{"text":"a\\u0000b"}'), 422],
  ['NUL, bare', body('{"text":"a\u0000b"}'), 422],
  ['NUL in a key', body('{"text":"a","\\u0000":1}'), 422],
  ['a high surrogate alone', body('{"text":"\\ud83d"}'), 422],
  ['a low surrogate alone', body('{"text":"\\ude00"}'), 422],
  ['surrogates the wrong way round', body('{"text":"\\ude00\\ud83d"}'), 422],
  ['a surrogate in a key', body('{"text":"a","\\ud800":1}'), 422],
  ['control characters, bare', body('{"text":"a\u0001\u001fb"}'), 422],
  ['a byte-order mark', body('\ufeff{"text":"/say ok"}'), 200, 422],
  ['a byte-order mark of UTF-16', body(Buffer.concat([bytes(0xff, 0xfe), Buffer.from('{"text":"a"}', 'utf16le')])), 422],
  ['UTF-16', body(Buffer.from('{"text":"a"}', 'utf16le')), 422],
  ['UTF-8: a stray continuation byte', body(text(bytes(0x80))), 200, 422],
  ['UTF-8: an overlong slash', body(text(bytes(0xc0, 0xaf))), 200, 422],
  ['UTF-8: an overlong NUL', body(text(bytes(0xc0, 0x80))), 200, 422],
  ['UTF-8: a surrogate', body(text(bytes(0xed, 0xa0, 0x80))), 200, 422],
  ['UTF-8: beyond Unicode', body(text(bytes(0xf4, 0x90, 0x80, 0x80))), 200, 422],
  ['UTF-8: cut in the middle', body(text(bytes(0xf0, 0x9f, 0x98))), 200, 422],
  ['UTF-8: bytes that never occur', body(text(bytes(0xfe, 0xff))), 200, 422],
  ['noncharacters', body('{"text":"/say \uffff\ufffe"}'), 200],
  ['directions and joiners', body('{"text":"/say \u202e\u200d\u2066"}'), 200],
  // JSON
  ['nothing', body(''), 422],
  ['spaces', body('   \n\t '), 422],
  ['half an object', body('{"text":"a"'), 422],
  ['two values', body('{"text":"a"}{"text":"b"}'), 422],
  ['a comment', body('{"text":"a"/* b */}'), 422],
  ['NaN', body('{"text":NaN}'), 422],
  ['arrays in arrays', body(nested('[', ']', 50_000)), 422],
  ['objects in objects', body(nested('{"a":', '}', 20_000)), 422],
  ['100,000 keys', body(`{"text":"/say ok",${Array.from({ length: 60_000 }, (_, index) => `"k${index}":0`).join(',')}}`), 200],
  ['the same key twice', body('{"text":7,"text":"/say ok"}'), 200],
  ['the same key twice, the wrong one last', body('{"text":"a","text":7}'), 422],
  ['__proto__', body('{"text":"a","__proto__":{"admin":true}}'), 422],
  ['__proto__, escaped', body('{"text":"a","__pr\\u006fto__":{"admin":true}}'), 422],
  ['constructor.prototype', body('{"text":"/say ok","constructor":{"prototype":{"admin":true}}}'), 200],
  ['toString and hasOwnProperty', body('{"text":"/say ok","toString":1,"hasOwnProperty":1,"valueOf":null}'), 200],
  ['a number beyond doubles', body('{"text":"/say ok","x":1e999}'), 200],
  ['a number of 100,000 digits', body(`{"text":"/say ok","x":${'9'.repeat(100_000)}}`), 200],
  ['minus zero, and very small', body('{"text":"/say ok","x":[-0,5e-324,1e-999]}'), 200],
  ['a huge number where text belongs', body(`{"text":${'9'.repeat(400)}}`), 422],
  ['text of a million', body(`{"text":"${'x'.repeat(1_000_000)}"}`), 422],
  ['more than a body may have', body(`{"text":"${'x'.repeat(1_100_000)}"}`), 413],
  // What the body is said to be
  ['no content type', body('{"text":"a"}', []), 415],
  ['an empty content type', body('{"text":"a"}', ['Content-Type: ']), 415],
  ['a content type that is none', body('{"text":"a"}', ['Content-Type: ;;;/,']), 415],
  ['text/plain', body('{"text":"a"}', ['Content-Type: text/plain']), 415],
  ['two content types', body('{"text":"/say ok"}', [json, 'Content-Type: text/html']), 200, 415],
  ['another charset', body('{"text":"/say ok"}', [`${json}; charset=utf-7`]), 200, 415],
  ['gzip, truly', body(gzipSync('{"text":"a"}'), [json, 'Content-Encoding: gzip']), 415],
  ['gzip, falsely', body('{"text":"/say ok"}', [json, 'Content-Encoding: gzip']), 415],
  ['multipart', body('--x\r\n\r\n--x--', ['Content-Type: multipart/form-data; boundary=x']), 415],
  // How long it is
  ['a length that is no number', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: ten'], '{"text":"a"}'), 400],
  ['a negative length', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: -1'], '{"text":"a"}'), 400],
  ['a length beyond integers', request(`POST ${messages} HTTP/1.1`, [key, json, `Content-Length: ${'9'.repeat(30)}`], '{}'), 400, 413],
  ['a length beyond memory', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: 9007199254740991'], '{}'), 413],
  ['a length longer than the body', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: 50'], '{"text":"a"}'), 408],
  ['a length shorter than the body', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: 5'], '{"text":"a"}'), 400, 422],
  ['two lengths', request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: 5', 'Content-Length: 12'], '{"text":"a"}'), 400],
  ['a length and chunks', chunked('c\r\n{"text":"a"}\r\n0\r\n\r\n', ['Content-Length: 12']), 400],
  ['chunks', chunked('c\r\n{"text":"/say\r\n6\r\n ok"}\n\r\n0\r\n\r\n'), 200, 400, 422],
  ['a chunk whose size is no number', chunked('zz\r\n{"text":"a"}\r\n0\r\n\r\n'), 400],
  ['a chunk larger than integers', chunked('ffffffffffffffffff\r\n{}'), 400, 413],
  ['a chunk with an endless extension', chunked(`1;${'a'.repeat(40_000)}\r\n{\r\n0\r\n\r\n`), 400, 413, 431],
  ['a chunk without an end', chunked('c\r\n{"text":"a"}\r\n'), 408],
  ['a trailer that sets the key', chunked('0\r\nAuthorization: Bearer x\r\n\r\n'), 400, 422],
  ['chunked, chunked', request(`POST ${messages} HTTP/1.1`, [key, json, 'Transfer-Encoding: chunked, chunked'], '0\r\n\r\n'), 400, 422],
  ['chunked, but not last', request(`POST ${messages} HTTP/1.1`, [key, json, 'Transfer-Encoding: chunked, identity'], '{}'), 400],
  ['chunked, spelled otherwise', request(`POST ${messages} HTTP/1.1`, [key, json, 'Transfer-Encoding:\x0bchunked'], '0\r\n\r\n'), 400, 408],
  // Headers
  ['a key twice, the second wrong', get('/v1/sessions/bytes', [key, 'Authorization: Bearer svc_live_wrong_wrong_wrong']), 200, 400, 401],
  ['a host twice', get('/v1/sessions/bytes', [key, 'Host: evil.example']), 400],
  ['no host', `GET /v1/sessions/bytes HTTP/1.1\r\n${key}\r\n\r\n`, 400],
  ['a host that is none', `GET /v1/sessions/bytes HTTP/1.1\r\nHost: [::1\r\n${key}\r\n\r\n`, 200, 400],
  ['headers of 20 KiB', get('/v1/sessions/bytes', [key, `X-Long: ${'a'.repeat(20_000)}`]), 431],
  ['three thousand headers', get('/v1/sessions/bytes', [key, ...Array.from({ length: 3_000 }, (_, index) => `X${index}: 1`)]), 200, 431],
  ['a header with NUL', get('/v1/sessions/bytes', [key, 'X-Nul: a\0b']), 400],
  ['a header over two lines', get('/v1/sessions/bytes', [key, 'X-Folded: a\r\n b']), 200, 400],
  ['a header name with a space', get('/v1/sessions/bytes', [key, 'X Space: a']), 400],
  ['a line that ends with LF alone', `GET /v1/sessions/bytes HTTP/1.1\nHost: x\n${key}\n\n`, 400],
  ['an Idempotency-Key in Latin-1', body('{"text":"/say ok"}', [json, 'Idempotency-Key: \xe9\xff']), 200, 422],
  [
    'a session header in Latin-1',
    request(
      'POST /demo/assistant/v1/chat/completions HTTP/1.1',
      [key, json, 'X-Svc-Session: \xe9', 'Content-Length: 43'],
      '{"messages":[{"role":"user","content":"a"}]}'.slice(0, 43),
    ),
    404,
  ],
  ['Expect: 100-continue', body('{"text":"/say ok"}', [json, 'Expect: 100-continue']), 100, 200],
  ['Expect: something else', body('{"text":"/say ok"}', [json, 'Expect: the-impossible']), 417],
  ['Upgrade to a WebSocket', get('/v1/sessions/bytes', [key, 'Connection: Upgrade', 'Upgrade: websocket']), 200, 400],
  [
    'Upgrade to HTTP/2',
    get('/v1/sessions/bytes', [key, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk']),
    200,
    400,
  ],
  ['x-stainless-retry-count that is no count', body('{"text":"/say ok"}', [json, 'x-stainless-retry-count: 1e999']), 200],
  // Paths and queries
  ['a path cut in an escape', get('/v1/sessions/%'), 404],
  ['a path that is no UTF-8', get('/v1/sessions/%ff%fe'), 404],
  ['a path with NUL', get('/v1/sessions/%00'), 404],
  ['a path with a slash inside', get('/v1/sessions/a%2fb'), 404],
  ['a path that climbs', get('/v1/sessions/../../etc/passwd'), 404],
  ['a path that climbs, escaped', get('/v1/sessions/%2e%2e%2f%2e%2e%2fetc'), 404],
  ['a path escaped twice', get('/v1/sessions/%2562ytes'), 404],
  ['a path in Latin-1', get('/v1/sessions/\xe9'), 400, 404],
  ['a path of 10,000', get(`/v1/sessions/${'x'.repeat(10_000)}`), 404],
  ['an id of 500', get(`/v1/sessions/${'x'.repeat(500)}`), 404],
  ['a path of backslashes', get('\\v1\\sessions\\bytes'), 400, 404],
  ['a URL instead of a path', get('http://evil.example/v1/sessions/bytes'), 200, 404],
  ['an asterisk', request('OPTIONS * HTTP/1.1'), 400, 404],
  ['a query cut in an escape', get(`${list}?page=%`), 200, 422],
  ['a query that is no UTF-8', get(`${list}?active=%ff`), 422],
  ['a query with NUL', get(`${list}?page=%00`), 422],
  ['a query of its own prototype', get(`${list}?__proto__[admin]=1&constructor=1&page=1`), 200],
  ['a query twice', get(`${list}?page=1&page=2`), 422],
  ['a page beyond integers', get(`${list}?page=${'9'.repeat(40)}`), 200, 422],
  ['a page of 1e308', get(`${list}?page=1e308`), 200, 422],
  ['a query of 10,000 pairs', get(`${list}?${'a=1&'.repeat(3_000)}`), 200],
  ['a cursor of rubbish', get('/api/audit_events?cursor=%F0%9F%98%80'), 422],
  ['a cursor that decodes to NUL', get(`/api/agents?cursor=${Buffer.from('["agents","\0"]').toString('base64url')}`), 422],
  ['a cursor beyond integers', get(`/api/agents?cursor=${Buffer.from('["agents",99999999999999999999]').toString('base64url')}`), 422],
  ['a cursor of another shape', get(`/api/api_keys?cursor=${Buffer.from('{"a":[1]}').toString('base64url')}`), 422],
  ['a cursor of another list', get(`/api/api_keys?cursor=${Buffer.from('["agents",1]').toString('base64url')}`), 422],
  ['a cursor with something behind it', get(`/api/api_keys?cursor=${Buffer.from('["api_keys",12]').toString('base64url')}x`), 422],
  ['a cursor of this list', get(`/api/api_keys?cursor=${Buffer.from('["api_keys",1]').toString('base64url')}`), 200],
  ['after that is no number', get('/demo/assistant/v1/managed-agents/sessions/bytes/events/stream?after=0x1g'), 400],
  // Lines
  ['no HTTP at all', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  ['HTTP/0.9', 'GET /healthz\r\n\r\n', 200, 400],
  ['HTTP/9.9', get('/healthz').toString('latin1').replace('HTTP/1.1', 'HTTP/9.9'), 400, 505],
  ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['a method that is none', request('FROB /healthz HTTP/1.1'), 400],
  ['a method in small letters', request('get /healthz HTTP/1.1'), 400],
  ['CONNECT', request('CONNECT evil.example:443 HTTP/1.1'), 400],
  ['TRACE', request('TRACE /v1/sessions/bytes HTTP/1.1'), 404],
  ['a GET with a body', request('GET /v1/sessions/bytes HTTP/1.1', [key, json, 'Content-Length: 1'], '{'), 200],
  ['a DELETE with a body', request('DELETE /demo/assistant/v1/sessions/nothing HTTP/1.1', [key, json, 'Content-Length: 1'], '{'), 404, 422],
  ['two requests at once', Buffer.concat([get('/healthz'), get('/healthz')]), 200],
  [
    'a request hidden behind another',
    request(`POST ${messages} HTTP/1.1`, [key, json, 'Content-Length: 2'], '{}GET /metrics HTTP/1.1\r\n\r\n'),
    422,
  ],
];

test(`${vectors.length} requests that no client library sends`, async () => {
  assert.ok(vectors.length >= 60);
  const failures: string[] = [];
  const check = async ([name, sent, ...statuses]: (typeof vectors)[number]) => {
    const answer = await sendBytes(port, sent);
    if (answer.hung) failures.push(`${name}: hung`);
    else if (!statuses.includes(answer.status)) failures.push(`${name}: ${answer.status} ${answer.body.slice(0, 120)}`);
    else if (answer.status >= 400 && !saysWhy(answer)) failures.push(`${name}: ${answer.status} without a reason`);
  };
  // One session takes sixteen at a time.
  for (let index = 0; index < vectors.length; index += 8) await Promise.all(vectors.slice(index, index + 8).map(check));
  assert.deepEqual(failures, []);
});

function saysWhy({ body: answer }: RawAnswer): boolean {
  const { detail } = JSON.parse(answer);
  return typeof detail === 'string' && detail.length > 5;
}

test('what cannot be read behind a request is refused after the answer to that, never inside of it', async () => {
  const said = JSON.stringify({ text: '/delay 10\n/say one two three' });
  for (const [behind, status] of [
    ['garbage\r\n\r\n', 400],
    ['CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\nmore', 400],
    [`GET / HTTP/1.1\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['GET /healthz HTTP/1.1\r\nHo', 408],
  ] as const) {
    const unary = splitAnswers(await exchange(Buffer.concat([body(said), Buffer.from(behind)])));
    assert.deepEqual(
      unary.map((answer) => answer.status),
      [200, status],
    );
    assert.equal(JSON.parse(unary[0]?.body ?? '').text, 'one two three');
    assert.equal(typeof JSON.parse(unary[1]?.body ?? '').detail, 'string');
    const streamed = splitAnswers(await exchange(Buffer.concat([body(said.replace('{', '{"stream":true,')), Buffer.from(behind)])));
    assert.deepEqual(
      streamed.map((answer) => answer.status),
      [200, status],
    );
    assert.match(streamed[0]?.body ?? '', /event: done\ndata: .*\n\n\r\n0\r\n\r\n$/, 'to its last chunk');
  }
});

/** Sends the bytes and reads until the server closes. */
async function exchange(sent: Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write(sent);
  let received = '';
  for await (const chunk of socket) received += chunk;
  return received;
}

function splitAnswers(received: string): { status: number; body: string }[] {
  return received.split(/(?=HTTP\/1\.1 )/).map((answer) => ({
    status: Number(answer.slice(9, 12)),
    body: answer.slice(answer.indexOf('\r\n\r\n') + 4),
  }));
}

test('after all of it the server is well, and nothing was polluted', async () => {
  assert.equal((await app.request('GET', '/readyz')).status, 200);
  const said = await app.request('POST', messages, { text: '/say well' });
  assert.equal(said.body.text, 'well', said.text);
  assert.equal(Reflect.get({}, 'admin'), undefined);
  assert.equal(app.context.runner.running.size, 0);
  assert.equal(app.context.waitingRoom.working + app.context.waitingRoom.waiting, 0, 'no place is kept');
});
