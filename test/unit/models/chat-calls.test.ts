import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { answer, delta, done } from './chat-cases.ts';
import { callOf, callsOf, collect, neverAborted } from './provider-cases.ts';

describe('a chat-completions server may', () => {
  test('call tools without indexes, in one piece, and say "stop"', async () => {
    const tool_calls = [
      { id: 'a', function: { name: 'bash', arguments: '{"command":"ls"}' } },
      { id: 'b', function: { name: 'files', arguments: { operation: 'list' } } },
    ];
    const parts = await answer(delta({ tool_calls }, 'stop'), done);
    assert.deepEqual(
      callsOf(parts).map(({ tool, input }) => [tool, input]),
      [
        ['bash', { command: 'ls' }],
        ['files', { operation: 'list' }],
      ],
    );
  });

  test('give its calls the same index and different ids', async () => {
    const piece = (id: string) => delta({ tool_calls: [{ index: 0, id, function: { name: 'bash', arguments: '{}' } }] });
    assert.equal(callsOf(await answer(piece('a'), piece('b'), done)).length, 2);
  });

  test('give each piece of a call another id: a call begins with its name', async () => {
    const piece = (id: string, name: string | undefined, text: string, index?: number) =>
      delta({ tool_calls: [{ index, id, function: { name, arguments: text } }] });
    for (const index of [0, undefined]) {
      const pieces = [piece('a', 'bash', '{"command"', index), piece('b', '', ':"l', index), piece('c', undefined, 's"}', index)];
      assert.deepEqual(
        callsOf(await answer(...pieces, done)).map(({ tool, input }) => [tool, input]),
        [['bash', { command: 'ls' }]],
      );
    }
  });

  test('leave the id and the name of a call empty in all pieces but the first', async () => {
    const piece = (id: string, name: string, text: string) =>
      delta({ tool_calls: [{ index: 0, id, function: { name, arguments: text } }] });
    const calls = callsOf(await answer(piece('a', 'bash', '{"command"'), piece('', '', ':"ls"}'), done));
    assert.deepEqual(
      calls.map(({ tool, input }) => [tool, input]),
      [['bash', { command: 'ls' }]],
    );
  });

  test('give its calls no ids', async () => {
    const piece = (index: number) => delta({ tool_calls: [{ index, function: { name: 'bash', arguments: '{}' } }] });
    assert.equal(callsOf(await answer(piece(0), piece(1), done)).length, 2);
  });

  test('write an input that is no JSON: the tool gets it as it is', async () => {
    const tool_calls = [{ index: 0, id: 'a', function: { name: 'bash', arguments: '{"comm' } }];
    const parts = await answer(delta({ tool_calls }, 'length'), done);
    assert.equal(callsOf(parts)[0]?.input, '{"comm');
  });

  test('nest an input so deep that it could not be stored: it stays text', async () => {
    const nested = `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`;
    const parts = await answer(delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'bash', arguments: nested } }] }), done);
    assert.equal(callsOf(parts)[0]?.input, nested);
    const signed = `{"index":0,"id":"a","function":{"name":"bash"},"extra_content":${nested}}`;
    const [call] = callsOf(await answer(`data: {"choices":[{"delta":{"tool_calls":[${signed}]}}]}\n\n`, done));
    assert.deepEqual([call?.tool, call?.providerMetadata], ['bash', undefined], 'and such a signature is left out');
  });

  test('sign its calls, and gets the signature back', async () => {
    const extra_content = { google: { thought_signature: 'abc' } };
    const [call] = callsOf(await answer(delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'bash' }, extra_content }] }), done));
    assert.ok(call);
    let sent = '';
    const model = createChatModel('gemini', {
      baseUrl: 'http://127.0.0.1/v1',
      apiKey: undefined,
      ask: async (_url, init) => {
        sent = String(init?.body);
        return new Response(delta({ content: 'Hi' }, 'stop') + done);
      },
    });
    await collect(
      model.stream(
        callOf([
          { role: 'user', text: 'x' },
          { role: 'assistant', parts: [{ ...call, callId: 'call_1' }] },
        ]),
        neverAborted,
      ),
    );
    assert.deepEqual(JSON.parse(sent).messages[2].tool_calls[0].extra_content, extra_content);
  });
});
