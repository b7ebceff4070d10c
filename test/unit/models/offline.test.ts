import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { type ModelCall, ModelError, type ModelPart, type ModelTool, type PromptMessage } from '../../../src/harness/model.ts';
import { createOfflineModel } from '../../../src/harness/models/offline.ts';

const model = createOfflineModel('demo');
const tool = (name: string): ModelTool => ({ name, description: name, inputSchema: { type: 'object' } });
const tools = [tool('bash'), tool('files'), tool('handoff')];

function callOf(messages: PromptMessage[], changes: Partial<ModelCall> = {}): ModelCall {
  return { instructions: 'Be brief.', messages, tools, thinking: false, settings: {}, received: 0, ...changes };
}

function ask(text: string, changes: Partial<ModelCall> = {}): Promise<ModelPart[]> {
  return collect(callOf([{ role: 'user', text }], changes));
}

async function collect(call: ModelCall, signal = new AbortController().signal): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of model.stream(call, signal)) parts.push(part);
  return parts;
}

const textOf = (parts: ModelPart[]) => parts.map((part) => (part.type === 'text-delta' ? part.text : '')).join('');
const callsOf = (parts: ModelPart[]) => parts.flatMap((part) => (part.type === 'tool-call' ? [[part.tool, part.input]] : []));

describe('the offline model answers', () => {
  const answers: [name: string, text: string, answer: string][] = [
    ['naming what it was asked and the turn', 'Hello there', 'You said: "Hello there". This is turn 1 of our conversation.'],
    ['with exactly what it was told to say', '/say  two  spaces, "quotes" and é', 'two  spaces, "quotes" and é'],
    ['with several lines to say', '/say one\n/say two', 'one\ntwo'],
    ['with an empty text', '/say', ''],
    ['with so many words', '/words 3', 'a slow river'],
    ['with no words', '/words 0', ''],
    ['to a line that only begins with a slash', '/etc/hosts is odd', 'You said: "/etc/hosts is odd". This is turn 1 of our conversation.'],
    ['to the lines that are no directive', '/delay 0\nHi', 'You said: "Hi". This is turn 1 of our conversation.'],
    ['a directive with a carriage return', '/say yes\r\n', 'yes'],
    ['an input that is no JSON', '/tool bash {no', 'The input of /tool bash is not valid JSON: {no'],
    [
      'an input that nests too deep',
      `/tool bash ${'['.repeat(5000)}${']'.repeat(5000)}`,
      'The input of /tool bash nests deeper than 100 levels.',
    ],
    ['a tool without a name', '/tool', '/tool needs the name of a tool.'],
    ['a tool that is not offered', '/tool nope {}', 'There is no tool named nope here. There are: bash, files, handoff.'],
    ['a handoff to nobody', '/handoff', '/handoff needs the name of a sub-agent.'],
    ['an unknown failure', '/fail sometimes', '/fail takes one of unauthorized, rate_limited, overloaded, broken_stream.'],
    ['too many words', '/words 50001', '/words takes a whole number from 0 to 50000.'],
    ['a delay that is no number', '/delay soon', '/delay takes a whole number from 0 to 60000.'],
  ];
  for (const [name, text, answer] of answers) {
    test(name, async () => {
      const parts = await ask(text);
      assert.equal(textOf(parts), answer);
      assert.equal(parts.at(-1)?.type, 'finish');
    });
  }

  test('word by word', async () => {
    const parts = await ask('/say  one two\nthree');
    assert.deepEqual(
      (await ask('/say one  two three')).flatMap((part) => (part.type === 'text-delta' ? [part.text] : [])),
      ['one  ', 'two ', 'three'],
    );
    assert.equal(textOf(parts), 'one two');
  });

  test('with 64 words in 64 pieces', async () => {
    const parts = await ask('/words 64');
    assert.equal(parts.length, 65);
    assert.equal(textOf(parts).split(' ').length, 64);
  });

  test('the same to the same conversation', async () => {
    assert.deepEqual(await ask('Tell me more'), await ask('Tell me more'));
  });

  test('counting the turns and naming what was attached', async () => {
    const parts = await collect(
      callOf([
        { role: 'user', text: 'first' },
        { role: 'assistant', parts: [{ type: 'text', text: 'yes' }] },
        { role: 'user', text: 'second', files: ['uploads/a.txt'] },
      ]),
    );
    assert.equal(textOf(parts), 'You said: "second". You attached uploads/a.txt. This is turn 2 of our conversation.');
  });

  test('cutting a long question short', async () => {
    const text = textOf(await ask('x'.repeat(100_000)));
    assert.ok(text.length < 400);
  });

  test('to a conversation without a user message', async () => {
    assert.match(textOf(await collect(callOf([]))), /turn 0/);
  });
});

describe('the offline model calls tools', () => {
  test('all of a message in one step, in order, and thinks first', async () => {
    const parts = await ask('/think Which one?\n/tool bash {"command":"ls"}\n/tool files {"operation":"list"}\n/handoff billing');
    assert.deepEqual(
      parts.slice(0, 3).map((part) => (part.type === 'reasoning-delta' ? part.text : part.type)),
      ['Which ', 'one?', 'reasoning-end'],
    );
    assert.deepEqual(callsOf(parts), [
      ['bash', { command: 'ls' }],
      ['files', { operation: 'list' }],
      ['handoff', { agent: 'billing' }],
    ]);
    assert.equal(parts.at(-1)?.type, 'finish');
  });

  const afterCalls = (text: string, calls: [tool: string, input: unknown, output: string, isError?: boolean][]): PromptMessage[] => [
    { role: 'user', text },
    {
      role: 'assistant',
      parts: calls.map(([tool, input], index) => ({ type: 'tool-call', callId: `call_${index}`, tool, input })),
    },
    {
      role: 'tool',
      results: calls.map(([tool, , output, isError = false], index) => ({ callId: `call_${index}`, tool, output, isError })),
    },
  ];

  const later: [name: string, messages: PromptMessage[], answer: string][] = [
    ['and answers with the result', afterCalls('/tool bash {"command":"ls"}', [['bash', {}, 'a.txt']]), 'bash answered: a.txt'],
    [
      'and answers with every result',
      afterCalls('/think hm\n/tool bash {}\n/tool files {}', [
        ['bash', {}, 'one'],
        ['files', {}, 'no such path', true],
      ]),
      'bash answered: one\nfiles failed: no such path',
    ],
    ['and then says what it was told', afterCalls('/tool bash {}\n/say done', [['bash', {}, 'one']]), 'done'],
    [
      'and names the sub-agent that took over',
      afterCalls('/handoff billing', [['handoff', { agent: 'billing' }, 'ok']]),
      'This is billing, who takes over here.',
    ],
    [
      'and lists the files',
      afterCalls('Which files?', [['files', { operation: 'list' }, 'a.txt']]),
      'You said: "Which files?". This is turn 1 of our conversation.\nWorkspace: a.txt',
    ],
    ['and says when a result is missing', afterCalls('/tool bash {}', [['bash', {}, 'x']]).slice(0, 2), 'bash gave no result.'],
    [
      'and still names the one that is not offered',
      afterCalls('/tool bash {}\n/tool nope {}', [['bash', {}, 'one']]),
      'There is no tool named nope here. There are: bash, files, handoff.\nbash answered: one',
    ],
  ];
  for (const [name, messages, answer] of later) {
    test(name, async () => {
      const parts = await collect(callOf(messages));
      assert.equal(textOf(parts), answer);
      assert.deepEqual(callsOf(parts), []);
    });
  }

  test('again when a later message asks again', async () => {
    const parts = await collect(callOf([...afterCalls('/tool bash {}', [['bash', {}, 'one']]), { role: 'user', text: '/tool bash {}' }]));
    assert.deepEqual(callsOf(parts), [['bash', {}]]);
  });

  test('to list the workspace when asked about files, if it can', async () => {
    assert.deepEqual(callsOf(await ask('What is in the Workspace?')), [['files', { operation: 'list' }]]);
    assert.deepEqual(callsOf(await ask('Show my profile')), []);
    assert.match(textOf(await ask('Which files?', { tools: [] })), /You said: "Which files\?"/);
  });

  test('of a message only where they are offered', async () => {
    assert.equal(textOf(await ask('/tool bash {}', { tools: [] })), 'There is no tool named bash here. There are no tools.');
  });
});

describe('the offline model fails as a provider would', () => {
  const failures: [directive: string, code: string, retryable: boolean][] = [
    ['unauthorized', 'byok_key_rejected', false],
    ['rate_limited', 'rate_limited', true],
    ['overloaded', 'overloaded', true],
    ['broken_stream', 'broken_stream', true],
  ];
  for (const [directive, code, retryable] of failures) {
    test(directive, async () => {
      const parts: ModelPart[] = [];
      const run = async () => {
        for await (const part of model.stream(callOf([{ role: 'user', text: `/fail ${directive}` }]), new AbortController().signal)) {
          parts.push(part);
        }
      };
      await assert.rejects(run, (error) => error instanceof ModelError && error.code === code && error.retryable === retryable);
      assert.equal(parts.length > 0, directive === 'broken_stream');
      assert.ok(parts.every((part) => part.type !== 'finish'));
    });
  }

  test('when the conversation is longer than its context', async () => {
    const messages: PromptMessage[] = Array.from({ length: 4 }, () => ({ role: 'user', text: 'x'.repeat(150_000) }));
    await assert.rejects(collect(callOf(messages)), { code: 'context_length_exceeded' });
  });
});

test('the offline model counts four characters as a token', async () => {
  const usage = (parts: ModelPart[]) => parts.flatMap((part) => (part.type === 'finish' ? [part.usage] : []));
  const parts = await collect(
    callOf([
      { role: 'user', text: '12345678' },
      { role: 'assistant', parts: [{ type: 'tool-call', callId: 'c', tool: 'bash', input: { command: 'ls' } }] },
      { role: 'tool', results: [{ callId: 'c', tool: 'bash', output: '1234', isError: false }] },
      { role: 'user', text: '/say 12345' },
    ]),
  );
  // 9 of instructions, 8 + 9 + 4 + 10 of messages.
  assert.deepEqual(usage(parts), [{ input: 10, output: 2, cachedInput: 0 }]);
});

test('a delay falls between words, and aborting ends it with the reason', async () => {
  const started = performance.now();
  await ask('/delay 20\n/words 3');
  assert.ok(performance.now() - started >= 35);

  const stop = new AbortController();
  const parts: ModelPart[] = [];
  const reason = new Error('interrupted');
  const run = async () => {
    for await (const part of model.stream(callOf([{ role: 'user', text: '/delay 60000\n/words 3' }]), stop.signal)) {
      parts.push(part);
      stop.abort(reason);
    }
  };
  await assert.rejects(run, reason);
  assert.equal(parts.length, 1);
});

test('aborting ends an answer without delays too, and one that has not begun', async () => {
  const stop = new AbortController();
  const reason = new Error('interrupted');
  const run = async () => {
    for await (const _ of model.stream(callOf([{ role: 'user', text: '/words 10' }]), stop.signal)) stop.abort(reason);
  };
  await assert.rejects(run, reason);
  await assert.rejects(collect(callOf([{ role: 'user', text: 'hi' }]), AbortSignal.abort(reason)), reason);
});

test('a very long answer lets other work run', async () => {
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, 0);
  const parts = await ask('/words 50000');
  clearInterval(timer);
  assert.equal(parts.length, 50_001);
  assert.ok(ticks > 0);
});
