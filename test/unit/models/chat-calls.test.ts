import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { answer, delta, done, modelAnswering } from './chat-cases.ts';
import { assistantMessage, callOf, callsOf, collect, neverAborted } from './provider-cases.ts';

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
    const tool_calls = [{ index: 0, id: 'a', function: { name: 'bash' }, extra_content }];
    assert.deepEqual((await sentBack(delta({ tool_calls }), done)).tool_calls[0].extra_content, extra_content);
  });
});

describe('what OpenRouter says of the thoughts behind calls', () => {
  const calls = ['tool_0_bash', 'tool_1_bash'].map((id, index) => ({ index, id, function: { name: 'bash', arguments: '{}' } }));
  const text = (piece: object) => delta({ reasoning_details: [{ type: 'reasoning.text', index: 0, ...piece }] });

  test('goes back with them, put together from its pieces, and names them as they are named then', async () => {
    const encrypted = (id: string, data: string) => ({ type: 'reasoning.encrypted', id, data, format: 'google-gemini-v1', index: 1 });
    const sent = await sentBack(
      text({ text: 'Two ', format: 'anthropic-claude-v1', signature: null }) + text({ text: 'files.' }),
      text({ signature: 'c2ln' }) + text({ signature: '' }),
      delta({ reasoning_details: [{ type: 'reasoning.summary', index: 0, summary: 'Two' }] }),
      delta({ reasoning_details: [{ type: 'reasoning.summary', index: 0, summary: ' files.', id: 'rs_1' }] }),
      delta({ reasoning_details: [encrypted('tool_0_bash', 'Zmly'), encrypted('tool_1_bash', 'c2Vj')] }),
      delta({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'b25k', index: 1 }], tool_calls: calls }, 'tool_calls'),
      done,
    );
    assert.deepEqual(sent.reasoning_details, [
      { type: 'reasoning.text', index: 0, text: 'Two files.', format: 'anthropic-claude-v1', signature: 'c2ln' },
      { type: 'reasoning.summary', index: 0, summary: 'Two files.', id: 'rs_1' },
      { type: 'reasoning.encrypted', id: 'N5WXYA1B2', data: 'Zmly', format: 'google-gemini-v1', index: 1 },
      { type: 'reasoning.encrypted', id: 'K7MNPC3D4', data: 'c2Vjb25k', format: 'google-gemini-v1', index: 1 },
    ]);
    assert.deepEqual(
      sent.tool_calls.map(({ id }: { id: string }) => id),
      ['N5WXYA1B2', 'K7MNPC3D4'],
    );
  });

  test('is taken from an answer in one piece too, where entries may have no index', async () => {
    const reasoning_details = ['a', 'b'].map((data) => ({ type: 'reasoning.encrypted', data }));
    const message = { content: null, reasoning_details, tool_calls: calls };
    const parts = await collect(
      modelAnswering([JSON.stringify({ choices: [{ message }] })], { 'content-type': 'application/json' }).stream(callOf(), neverAborted),
    );
    const entries = reasoning_details.map((entry, index) => ({ ...entry, index }));
    assert.deepEqual(
      callsOf(parts).map(({ providerMetadata }) => providerMetadata),
      [{ 'openai-compatible': { host: '127.0.0.1', reasoning_details: entries } }, undefined],
    );
  });

  test('is left out where nothing of it can be used, and refused where it would fill the memory', async () => {
    const nested = `{"type":"x","data":${'['.repeat(5000)}${']'.repeat(5000)}}`;
    const useless = `data: {"choices":[{"delta":{"reasoning_details":[null,7,${nested}]}}]}\n\n`;
    assert.equal('reasoning_details' in (await sentBack(useless, delta({ reasoning_details: {}, tool_calls: calls }), done)), false);
    const large = text({ text: 'x'.repeat(2 ** 20) });
    await assert.rejects(answer(large, large, large, large, large, delta({ tool_calls: calls }), done), { code: 'model_error' });
  });
});

/** The assistant message that the next call sends for an answer of these chunks. */
async function sentBack(...chunks: string[]) {
  let sent = '';
  const ask = async (_url: unknown, init: { body: string }) => {
    sent = init.body;
    return new Response(delta({ content: 'Hi' }, 'stop') + done);
  };
  const model = createChatModel('gemini', { baseUrl: 'http://127.0.0.1/v1', apiKey: undefined, ask });
  await collect(model.stream(callOf([{ role: 'user', text: 'x' }, assistantMessage(await answer(...chunks))]), neverAborted));
  return JSON.parse(sent).messages[2];
}
