// What the chat-completions and responses adapters read of a body and say in an answer, without a server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorKind, ServiceError } from '../../../src/errors.ts';
import { newId, timeOfId } from '../../../src/ids.ts';
import { ChatProjector, completionOf } from '../../../src/surfaces/chat-completions/project.ts';
import { readMessages } from '../../../src/surfaces/chat-completions/read-messages.ts';
import { ResponseAnswer } from '../../../src/surfaces/responses/answer.ts';
import { ResponseProjector } from '../../../src/surfaces/responses/project.ts';
import { readInput } from '../../../src/surfaces/responses/read-input.ts';
import { responsePlace } from '../../../src/surfaces/responses/response-ids.ts';
import { adapterError } from '../../../src/surfaces/shared/adapters/errors.ts';
import { toWireError } from '../../../src/surfaces/shared/errors.ts';

test('every kind of error has the type and the code that client libraries look at; a refused body names its field', () => {
  const kinds: [ErrorKind, string, string][] = [
    ['bad-request', 'invalid_request_error', 'bad_request'],
    ['unauthorized', 'authentication_error', 'unauthorized'],
    ['budget', 'insufficient_quota', 'budget_exhausted'],
    ['forbidden', 'permission_error', 'forbidden'],
    ['not-found', 'not_found_error', 'not_found'],
    ['conflict', 'conflict_error', 'conflict'],
    ['too-large', 'invalid_request_error', 'too_large'],
    ['unsupported-media-type', 'invalid_request_error', 'unsupported_media_type'],
    ['invalid', 'invalid_request_error', 'invalid_request'],
    ['rate-limited', 'rate_limit_error', 'rate_limited'],
    ['internal', 'server_error', 'internal_error'],
    ['unavailable', 'server_error', 'unavailable'],
  ];
  for (const [kind, type, code] of kinds) {
    const param = kind === 'bad-request' || kind === 'invalid' ? 'a.0.b' : null;
    const message = 'a.0.b: is wrong';
    assert.deepEqual(adapterError(toWireError(new ServiceError(kind, message))), { message, type, code, param });
    assert.equal(adapterError(toWireError(new ServiceError(kind, message, { code: 'other' }))).code, 'other');
  }
});

test('a stream of a response that goes on, which ends before its approval was read, has begun all the same', () => {
  const place = responsePlace('turn_01M7EP1RA10000D2K7Q9V4B6XW', 5);
  const projector = new ResponseProjector(new ResponseAnswer(place, 'helper', {}));
  const text = projector.begin() + projector.close('server_shutdown');
  const events = [...text.matchAll(/^event: (\S+)\ndata: \{"type":"\S+?","sequence_number":(\d+)/gm)];
  assert.deepEqual(
    events.map(([, type, number]) => [type, number]),
    [
      ['response.created', '0'],
      ['response.in_progress', '1'],
      ['response.failed', '1'],
      ['error', '1'],
    ],
  );
});

const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });

test('a session that goes on is told what was said since its last answer, and no message that says nothing', () => {
  const messages = [
    user('one'),
    { role: 'assistant' as const, content: null },
    { role: 'assistant' as const, content: [{ type: 'refusal', refusal: 'no' }] },
    user(''),
    user('two'),
    user('three'),
  ];
  assert.deepEqual(readMessages(messages, true)?.context, [
    { role: 'user', text: 'one' },
    { role: 'assistant', text: 'no' },
    { role: 'user', text: 'two' },
  ]);
  assert.deepEqual(readMessages(messages, false)?.context, [{ role: 'user', text: 'two' }]);
  assert.throws(
    () => readMessages([assistant('x'), user('x'.repeat(200_001))], true),
    /^ServiceError: messages\.1\.content: at most 200000/,
  );
});

test('of an input the last user message is run, and what the system says stands before it wherever it was said', () => {
  const input = readInput(
    [{ role: 'developer', content: 'One.' }, user('hi'), { role: 'system', content: 'Two.' }, { type: 'reasoning' }],
    true,
    true,
  );
  const told = ['One.', 'Two.'].map((text) => ({ role: 'system', text }));
  assert.deepEqual(input, { type: 'message', text: 'hi', context: told, repeatedSystem: [] });
});

test('what a client adds to an input for a model, behind what its user says, leaves that to be run', () => {
  const session = [user('one'), { type: 'message', id: 'msg_1', ...assistant('1') }];
  const approval = { type: 'mcp_approval_response', approval_request_id: 'req_1', approve: true };
  for (const added of [
    { type: 'configuration_update', reasoning: { effort: 'low' } },
    { type: 'additional_tools', role: 'developer', tools: [] },
    { type: 'compaction_trigger' },
    { type: 'tool_search_output', call_id: 'call_1', tools: [] },
    { type: 'function_call_output', call_id: 'call_1', output: '' },
  ]) {
    const input = readInput([...session, user('two'), added, user('three'), added], false, true);
    const context = [{ role: 'user', text: 'two' }];
    assert.deepEqual(input, { type: 'message', text: 'three', context, repeatedSystem: [] }, added.type);
    assert.equal(readInput([...session, approval, added], false, true).type, 'approval', added.type);
  }
});

test('a completion is dated by its turn, and says what of the prompt came from a cache, unless nothing did', () => {
  const turnId = newId('turn_');
  const outcome = { text: 'Hi', ended: undefined, failed: undefined };
  const usageOf = (cachedInput: number) => completionOf(turnId, 'm', { ...outcome, usage: { input: 9, output: 2, cachedInput } }).usage;
  assert.equal(completionOf(turnId, 'm', { ...outcome, usage: noTokens }).created, Math.floor(timeOfId(turnId) / 1000));
  const counts = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
  assert.deepEqual([usageOf(0), usageOf(4)], [counts, { ...counts, prompt_tokens_details: { cached_tokens: 4 } }]);
});

test('a stream that the server ends says so, unless its turn had ended', () => {
  const projector = new ChatProjector(newId('turn_'), 'm');
  assert.match(projector.close('server_shutdown'), /^data: \{"error":\{.*"code":"server_shutdown","provider":null\}\}\n\n$/);
  projector.project({
    seq: 3,
    turnId: 't',
    createdAt: new Date(),
    type: 'turn-ended',
    data: { stopReason: 'end_turn', usage: noTokens, step: 1, stepUsage: noTokens },
  });
  assert.equal(projector.close('server_shutdown'), '');
});

test('the texts of two steps are set apart in a chat stream, which shows them as one', () => {
  const projector = new ChatProjector('turn_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'm');
  const live = { type: 'text-delta' as const, turnId: 't', agent: 'main' };
  const chunks = [
    projector.project({ ...live, messageId: 'msg_1', step: 1, offset: 0, text: 'Let me ' }),
    projector.project({ ...live, messageId: 'msg_1', step: 1, offset: 7, text: 'see.' }),
    projector.project({ ...live, messageId: 'msg_2', step: 2, offset: 0, text: 'It has ' }),
    projector.project({ ...live, messageId: 'msg_2', step: 2, offset: 7, text: 'shipped.' }),
  ];
  const contents = [...chunks.join('').matchAll(/"content":("[^"]*")/g)].map(([, content]) => JSON.parse(content ?? ''));
  assert.deepEqual(contents, ['Let me ', 'see.', '\n\nIt has ', 'shipped.']);
});

const noTokens = { input: 0, output: 0, cachedInput: 0 };
