import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRequestReader, readWholeRequest } from '../../../src/surfaces/shared/server/whole-request.ts';

const read = (text: string) => readWholeRequest(Buffer.from(text, 'latin1'));
const head = 'POST /a HTTP/1.1\r\nHost: parley\r\nAUTHORIZATION: \tBearer me \r\nx-other: \t\r\n';

test('a plain POST is told as node:http would tell it', () => {
  const told = { method: 'POST', url: '/a', headers: { host: 'parley', authorization: 'Bearer me' } };
  assert.deepEqual(read(`${head}Content-Length: 2\r\n\r\n{}`), told);
  assert.deepEqual(read(`${head}connection: Keep-Alive\r\ncontent-length:0\r\n\r\n`), told);
  assert.deepEqual(read('POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n'), {
    method: 'POST',
    url: '/',
    headers: { host: undefined, authorization: undefined },
  });
});

for (const [what, text] of [
  ['nothing', ''],
  ['a part of a head', head],
  ['no body yet', `${head}content-length: 2\r\n\r\n`],
  ['a part of a body', `${head}content-length: 2\r\n\r\n{`],
  ['more than one request', `${head}content-length: 2\r\n\r\n{}P`],
  ['no length', `${head}\r\n`],
  ['another length', `${head}content-length: 2\r\ncontent-length: 0\r\n\r\n{}`],
  ['the length twice', `${head}content-length: 2\r\ncontent-length: 2\r\n\r\n{}`],
  ['a length that is none', `${head}content-length: 02\r\n\r\n{}`],
  ['a length with a sign', `${head}content-length: +2\r\n\r\n{}`],
  ['chunks', `${head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}`],
  ['two hosts', `${head}host: other\r\ncontent-length: 2\r\n\r\n{}`],
  ['two credentials', `${head}authorization: other\r\ncontent-length: 2\r\n\r\n{}`],
  ['a browser', `${head}origin: https://example.com\r\ncontent-length: 2\r\n\r\n{}`],
  ['an expectation', `${head}expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}`],
  ['another protocol', `${head}upgrade: websocket\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\n{}`],
  ['the end of the connection', `${head}connection: close\r\ncontent-length: 2\r\n\r\n{}`],
  ['a length on a continued line', `${head}x: y\r\n content-length: 2\r\n\r\n{}`],
  ['a space in a name', `${head}content-length : 2\r\n\r\n{}`],
  ['a lone line feed', `${head}x: y\ncontent-length: 2\r\n\r\n{}`],
  ['a lone carriage return', `${head}x: y\rcontent-length: 2\r\n\r\n{}`],
  ['NUL', `${head}x: \0\r\ncontent-length: 2\r\n\r\n{}`],
  ['a value that is not ASCII', `${head}x: ü\r\ncontent-length: 2\r\n\r\n{}`],
  ['another method', `${head.replace('POST', 'GET')}content-length: 2\r\n\r\n{}`],
  ['another version', `${head.replace('1.1', '1.0')}content-length: 2\r\n\r\n{}`],
  ['a space in the path', `${head.replace('/a', '/a b')}content-length: 2\r\n\r\n{}`],
  ['a long head', `${head}x: ${'y'.repeat(16_384)}\r\ncontent-length: 2\r\n\r\n{}`],
  ['an empty line ahead', `\r\n${head}content-length: 2\r\n\r\n{}`],
] as const) {
  test(`${what} is left to node:http`, () => assert.equal(read(text), undefined));
}

test('on one connection, a head that is not the same to the last byte, or that has another length, is read anew', () => {
  const readNext = createRequestReader();
  const told = (text: string) => readNext(Buffer.from(text))?.headers.authorization;
  const post = (name: string, body: string, length = body.length) =>
    `POST /a HTTP/1.1\r\nauthorization: ${name}\r\ncontent-length: ${length}\r\n\r\n${body}`;
  assert.equal(told(post('one', '{}')), 'one');
  assert.equal(told(post('one', '[]')), 'one');
  assert.equal(told(post('two', '[]')), 'two');
  assert.equal(told(post('two', '[]]', 2)), undefined);
  assert.equal(told(post('two', '[', 2)), undefined);
  assert.equal(told(post('one', '{}')), 'one');
  assert.equal(told(post('one', '{ }')), 'one');
});
