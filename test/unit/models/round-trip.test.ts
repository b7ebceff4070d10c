import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { AssistantPart, PromptMessage } from '../../../src/harness/model.ts';
import { providerFixture, serveProvider } from '../../support/provider-server.ts';
import {
  assistantMessage,
  callIds,
  callOf,
  collect,
  modelAt,
  neverAborted,
  type ProviderCase,
  providerCases,
  textOf,
  tools,
} from './provider-cases.ts';

function caseOf(provider: ProviderCase['provider']): ProviderCase {
  const found = providerCases.find((wire) => wire.provider === provider);
  assert.ok(found);
  return found;
}

/** Runs the step that calls the tools and the one that answers, and gives what the second one sent. */
async function runTwoSteps(wire: ProviderCase, before: PromptMessage[] = []): Promise<Record<string, unknown>> {
  const server = await serveProvider({ body: providerFixture(wire.tools) }, { body: providerFixture(wire.text) });
  try {
    const model = modelAt(server.origin, wire);
    const messages: PromptMessage[] = [...before, { role: 'user', text: 'Read both', name: 'Ada', files: ['uploads/a.txt'] }];
    const first = await collect(model.stream(callOf(messages, { tools, thinking: true }), neverAborted));
    messages.push(assistantMessage(first), {
      role: 'tool',
      results: [
        { callId: callIds[0], tool: 'files', output: 'content of a', isError: false },
        { callId: callIds[1], tool: 'bash', output: 'exit code 1', isError: true },
      ],
    });
    const second = await collect(model.stream(callOf(messages, { tools, thinking: true }), neverAborted));
    assert.equal(textOf(second), 'Grüße, 世界 👋');
    const body = server.requests[1]?.body;
    assert.ok(body);
    return body;
  } finally {
    server.close();
  }
}

const asked = 'Ada: Read both\n\n[Attached in the workspace: uploads/a.txt]';

describe('the second step sends back', () => {
  test('to Anthropic its thinking with the signature, the redacted thinking, the calls and their results', async () => {
    const body = await runTwoSteps(caseOf('anthropic'));
    assert.deepEqual(body.system, [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]);
    assert.deepEqual(body.messages, [
      { role: 'user', content: [{ type: 'text', text: asked }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Two files to read.', signature: 'EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk=' },
          { type: 'redacted_thinking', data: 'EmwKAhgBEgy3va3pzix' },
          { type: 'text', text: 'Reading both.' },
          { type: 'tool_use', id: callIds[0], name: 'files', input: { operation: 'read', path: 'a.txt' } },
          { type: 'tool_use', id: callIds[1], name: 'bash', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: callIds[0], content: 'content of a' },
          { type: 'tool_result', tool_use_id: callIds[1], content: 'exit code 1', is_error: true, cache_control: { type: 'ephemeral' } },
        ],
      },
    ]);
  });

  test('to OpenAI its reasoning encrypted, and asks it to store nothing', async () => {
    const body = await runTwoSteps(caseOf('openai'));
    assert.equal(body.store, false);
    assert.deepEqual(body.include, ['reasoning.encrypted_content']);
    assert.partialDeepStrictEqual(body.input, [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'input_text', text: asked }] },
      {
        type: 'reasoning',
        id: 'rs_68b2',
        encrypted_content: 'gAAAAABoEncryptedWhole',
        summary: [{ type: 'summary_text', text: 'Two files to read.' }],
      },
      { type: 'function_call', call_id: callIds[0], name: 'files', arguments: '{"operation":"read","path":"a.txt"}' },
      { type: 'function_call', call_id: callIds[1], name: 'bash', arguments: '{}' },
      { type: 'function_call_output', call_id: callIds[0], output: 'content of a' },
      { type: 'function_call_output', call_id: callIds[1], output: '{"error":"exit code 1"}' },
    ]);
  });

  test('to Google the signature of the call that carried it', async () => {
    const body = await runTwoSteps(caseOf('google'));
    assert.deepEqual(body.systemInstruction, { parts: [{ text: 'Be brief.' }] });
    assert.partialDeepStrictEqual(body.contents, [
      { role: 'user', parts: [{ text: asked }] },
      {
        role: 'model',
        parts: [
          {
            functionCall: { name: 'files', args: { operation: 'read', path: 'a.txt' } },
            thoughtSignature: 'CiQBSignatureOfTheFirstCall==',
          },
          { functionCall: { name: 'bash', args: {} } },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { name: 'files' } }, { functionResponse: { name: 'bash' } }] },
    ]);
    assert.ok(JSON.stringify(body.contents).includes('content of a'));
  });

  test('to a chat-completions server its thoughts of all turns, the calls and their results, under ids that Mistral takes too', async () => {
    const earlier: PromptMessage[] = [
      { role: 'user', text: 'Hi' },
      {
        role: 'assistant',
        parts: [
          {
            type: 'reasoning',
            text: 'An old thought.',
            providerMetadata: { 'openai-compatible': { field: 'reasoning_content' } },
          },
          { type: 'text', text: 'Hello' },
        ],
      },
    ];
    const body = await runTwoSteps(caseOf('openai-compatible'), earlier);
    assert.deepEqual(body.messages, [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello', reasoning_content: 'An old thought.' },
      { role: 'user', content: asked },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Two files to read.',
        tool_calls: [
          { id: 'N5WXYA1B2', type: 'function', function: { name: 'files', arguments: '{"operation":"read","path":"a.txt"}' } },
          { id: 'K7MNPC3D4', type: 'function', function: { name: 'bash', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'N5WXYA1B2', content: 'content of a' },
      { role: 'tool', tool_call_id: 'K7MNPC3D4', content: 'exit code 1' },
    ]);
    assert.deepEqual(body.tools, [
      { type: 'function', function: { name: 'files', description: 'Reads and writes files', parameters: tools[0]?.inputSchema } },
      { type: 'function', function: { name: 'bash', description: 'Runs a command', parameters: tools[1]?.inputSchema } },
    ]);
  });
});

describe('a conversation that another provider began', () => {
  const foreign: PromptMessage[] = [
    { role: 'user', text: 'Hi' },
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', text: 'A foreign thought.', providerMetadata: { elsewhere: { signature: 'x' } } },
        { type: 'reasoning', text: 'A thought of nobody.' },
        { type: 'text', text: '' },
        { type: 'tool-call', callId: 'c1', tool: 'bash', input: '{"broken', providerMetadata: { elsewhere: { id: 1 } } },
      ],
    },
    { role: 'tool', results: [{ callId: 'c1', tool: 'bash', output: 'not valid JSON', isError: true }] },
    { role: 'assistant', parts: [] },
    { role: 'user', text: 'Go on' },
  ];
  for (const wire of providerCases) {
    test(`goes to ${wire.provider} without foreign thoughts, and with an input that it takes`, async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      await collect(modelAt(server.origin, wire).stream(callOf(foreign, { tools }), neverAborted));
      const sent = JSON.stringify(server.requests[0]?.body);
      assert.ok(!sent.includes('thought of nobody') && !sent.includes('foreign thought'));
      assert.ok(!sent.includes('elsewhere'));
      assert.ok(sent.includes('invalid_input'));
      assert.ok(sent.includes('not valid JSON'));
    });
  }
});

describe('a blank text, which providers refuse for as long as it is in the conversation', () => {
  const blank: PromptMessage[] = [
    { role: 'user', text: '' },
    {
      role: 'assistant',
      parts: [
        { type: 'text', text: ' \n' },
        { type: 'text', text: 'Yes?' },
      ],
    },
    { role: 'user', text: ' \t' },
    { role: 'assistant', parts: [{ type: 'text', text: 'Still here.' }] },
    { role: 'assistant', parts: [{ type: 'text', text: ' ' }] },
    { role: 'user', text: '', files: ['uploads/a.txt'] },
  ];
  for (const wire of providerCases) {
    test(`goes to ${wire.provider} in words, or not at all`, async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      await collect(modelAt(server.origin, wire).stream(callOf(blank), neverAborted));
      const sent = JSON.stringify(server.requests[0]?.body);
      assert.equal(sent.split('"[no text]"').length - 1, 2, sent);
      assert.ok(!/"(text|content)":"\s*"/.test(sent), sent);
      assert.ok(sent.includes('[Attached in the workspace: uploads/a.txt]'));
    });
  }
});

describe('thoughts that nothing came of, because the answer was stopped, and which providers refuse on their own', () => {
  for (const wire of providerCases) {
    test(`do not go to ${wire.provider}`, async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      const metadata = { anthropic: { signature: 'sig' }, openai: { itemId: 'rs_1', reasoningEncryptedContent: 'gAAA' }, google: {} };
      const thought = (text: string): AssistantPart => ({ type: 'reasoning', text, providerMetadata: metadata });
      const messages: PromptMessage[] = [
        { role: 'user', text: 'First' },
        { role: 'assistant', parts: [thought('A lone thought.'), { type: 'text', text: ' ' }] },
        { role: 'user', text: 'Second' },
        { role: 'assistant', parts: [thought('A thought.'), { type: 'text', text: 'Said.' }, thought('A last thought.')] },
        { role: 'user', text: 'Third' },
      ];
      await collect(modelAt(server.origin, wire).stream(callOf(messages, { thinking: true }), neverAborted));
      const sent = JSON.stringify(server.requests[0]?.body);
      assert.deepEqual([sent.includes('A lone thought.'), sent.includes('A last thought.')], [false, false], sent);
      assert.equal(sent.includes('A thought.'), wire.provider !== 'openai-compatible');
      for (const said of ['First', 'Second', 'Said.', 'Third']) assert.ok(sent.includes(said));
    });
  }
});

describe('a tool name that a model made up, which providers refuse for as long as it is in the conversation', () => {
  const names = ['functions.bash', '', 'x'.repeat(70), 'crm__find-it'];
  const calls = names.map((tool, index) => ({ tool, callId: `call_00000000${index}` }));
  const messages: PromptMessage[] = [
    { role: 'user', text: 'Go' },
    { role: 'assistant', parts: calls.map((call) => ({ ...call, type: 'tool-call', input: {} })) },
    { role: 'tool', results: calls.map((call) => ({ ...call, output: 'There is no such tool.', isError: true })) },
  ];
  for (const wire of providerCases) {
    test(`goes to ${wire.provider} in characters that it takes`, async (t) => {
      const server = await serveProvider({ body: providerFixture(wire.text) });
      t.after(() => server.close());
      await collect(modelAt(server.origin, wire).stream(callOf(messages), neverAborted));
      const sent = JSON.stringify(server.requests[0]?.body).matchAll(/"name":"([^"]*)"/g);
      // Google is told the name with the result too.
      assert.deepEqual([...new Set([...sent].map(([, name]) => name))], ['functions_bash', 'unknown', 'x'.repeat(64), 'crm__find-it']);
    });
  }
});
