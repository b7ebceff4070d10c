import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { PromptMessage } from '../../../src/harness/model.ts';
import { createChatModel } from '../../../src/harness/models/chat-wire.ts';
import { callOf, collect, neverAborted, tools } from './provider-cases.ts';

describe('the body of a call', () => {
  async function sentFor(...given: Parameters<typeof callOf>): Promise<{ body: Record<string, unknown>; headers: Headers }> {
    let sent: RequestInit | undefined;
    const fetch = async (url: unknown, init?: RequestInit) => {
      sent = { ...init, headers: { ...init?.headers, 'x-url': String(url) } };
      return new Response('data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n');
    };
    const model = createChatModel('llama', { baseUrl: 'http://127.0.0.1:11434/v1/', apiKey: undefined, ask: fetch });
    await collect(model.stream(callOf(...given), neverAborted));
    return { body: JSON.parse(String(sent?.body)), headers: new Headers(sent?.headers) };
  }

  test('has provider_options as they are, and goes without a key where there is none', async () => {
    const settings = { stop: 'END', top_p: 0.5, temperature: 0, provider_options: { reasoning_effort: 'low', seed: 7 } };
    const { body, headers } = await sentFor(undefined, { settings });
    assert.deepEqual(body, {
      model: 'llama',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
      ],
      temperature: 0,
      top_p: 0.5,
      stop: ['END'],
      stream: true,
      stream_options: { include_usage: true },
      reasoning_effort: 'low',
      seed: 7,
    });
    assert.deepEqual([headers.get('x-url'), headers.get('authorization')], ['http://127.0.0.1:11434/v1/chat/completions', null]);
  });

  test('has no options of a stream where the release wants none', async () => {
    const { body } = await sentFor(undefined, { settings: { provider_options: { stream: false } } });
    assert.deepEqual([body.stream, 'stream_options' in body], [false, false]);
  });

  test('leaves out what would be empty, and joins the thoughts of one step', async () => {
    const thought = (text: string) => ({
      type: 'reasoning' as const,
      text,
      providerMetadata: { 'openai-compatible': { field: 'reasoning' } },
    });
    const { body } = await sentFor(
      [
        { role: 'user', text: 'Hi' },
        { role: 'assistant', parts: [thought('Only thought.')] },
        { role: 'assistant', parts: [thought('One. '), thought('Two.'), { type: 'text', text: 'Hello' }] },
      ],
      { instructions: '' },
    );
    assert.deepEqual(body.messages, [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello', reasoning: 'One. Two.' },
    ]);
  });

  describe('has of the thoughts', () => {
    const said = (text: string, field?: string, host?: string): PromptMessage => {
      const thought = { type: 'reasoning' as const, text: `Thought of ${text}` };
      const providerMetadata = { 'openai-compatible': { field, ...(host && { host }) } };
      return { role: 'assistant', parts: [...(field === undefined ? [] : [{ ...thought, providerMetadata }]), { type: 'text', text }] };
    };
    const asked: PromptMessage = { role: 'user', text: 'Well?' };
    const answersIn = async (messages: PromptMessage[], changes: Parameters<typeof callOf>[1]) => {
      const sent = (await sentFor(messages, changes)).body.messages;
      return Array.isArray(sent) ? sent.filter(({ role }) => role === 'assistant') : [];
    };
    const messages = [asked, said('One', 'reasoning_content'), asked, said('Two'), asked, said('Three', 'reasoning_content')];

    test('those of all turns with tools, and something in each answer, because DeepSeek V4 refuses the call otherwise', async () => {
      assert.deepEqual(await answersIn(messages, { tools }), [
        { role: 'assistant', content: 'One', reasoning_content: 'Thought of One' },
        { role: 'assistant', content: 'Two', reasoning_content: ' ' },
        { role: 'assistant', content: 'Three', reasoning_content: 'Thought of Three' },
      ]);
    });

    test('those of this turn without tools, because other models refuse the earlier ones', async () => {
      assert.deepEqual(await answersIn(messages, {}), [
        { role: 'assistant', content: 'One' },
        { role: 'assistant', content: 'Two' },
        { role: 'assistant', content: 'Three', reasoning_content: 'Thought of Three' },
      ]);
    });

    test('none that another server had, which may have fields that this one refuses', async () => {
      const [here, elsewhere] = ['127.0.0.1:11434', 'elsewhere.example'];
      const moved = [asked, said('One', 'reasoning_content', elsewhere), asked, said('Two', 'reasoning', here)];
      assert.deepEqual(await answersIn(moved, { tools }), [
        { role: 'assistant', content: 'One' },
        { role: 'assistant', content: 'Two', reasoning: 'Thought of Two' },
      ]);
    });

    test('nothing under a name that the server has not used', async () => {
      assert.deepEqual(await answersIn([asked, said('One', 'reasoning'), asked, said('Two')], { tools }), [
        { role: 'assistant', content: 'One', reasoning: 'Thought of One' },
        { role: 'assistant', content: 'Two' },
      ]);
    });
  });

  test('lets users and assistants take turns, which strict servers insist on, also after turns that ended without an answer', async () => {
    const call = { callId: 'call_000000001', tool: 'bash' };
    const messages: PromptMessage[] = [
      { role: 'user', text: 'Summary of the conversation.' },
      { role: 'user', text: 'Look', name: 'Ada', files: ['a.txt'] },
      { role: 'assistant', parts: [{ type: 'reasoning', text: 'Only thought.' }] },
      { role: 'user', text: '' },
      { role: 'assistant', parts: [{ type: 'tool-call', ...call, input: {} }] },
      { role: 'tool', results: [{ ...call, output: 'done', isError: false }] },
      { role: 'assistant', parts: [{ type: 'text', text: '[The turn ended here.]' }] },
      { role: 'assistant', parts: [{ type: 'text', text: 'Said elsewhere.' }] },
      { role: 'user', text: 'Well?' },
      { role: 'assistant', parts: [{ type: 'text', text: 'One moment.' }] },
      { role: 'assistant', parts: [{ type: 'tool-call', ...call, input: {} }] },
    ];
    const { body } = await sentFor(messages, { instructions: '' });
    const sentCall = { id: '000000001', type: 'function', function: { name: 'bash', arguments: '{}' } };
    assert.deepEqual(body.messages, [
      { role: 'user', content: 'Summary of the conversation.\n\nAda: Look\n\n[Attached in the workspace: a.txt]\n\n[no text]' },
      { role: 'assistant', content: null, tool_calls: [sentCall] },
      { role: 'tool', tool_call_id: '000000001', content: 'done' },
      { role: 'assistant', content: '[The turn ended here.]\n\nSaid elsewhere.' },
      { role: 'user', content: 'Well?' },
      { role: 'assistant', content: 'One moment.', tool_calls: [sentCall] },
    ]);
    const before = (await sentFor(messages.slice(0, 6), { instructions: '' })).body.messages;
    assert.deepEqual(before, Array.isArray(body.messages) && body.messages.slice(0, 3), 'what was sent before is sent again');
  });
});
