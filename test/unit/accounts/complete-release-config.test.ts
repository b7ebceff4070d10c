import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { ServiceError } from '../../../src/errors.ts';

test('an empty config is an agent that answers offline, with every default written out', () => {
  assert.deepEqual(completeReleaseConfig({ instructions: 'Be brief.' }), {
    instructions: 'Be brief.',
    model: { provider: 'offline', name: 'demo', base_url: null, settings: {} },
    main: 'main',
    agents: [{ name: 'main', instructions: 'Be brief.' }],
    tools: ['bash', 'files', 'fetch'],
    mcp_servers: [],
    permissions: { mode: 'interactive', rules: [] },
    instance: { scope: 'end_user' },
    limits: { max_steps: 32, turn_timeout_s: 600 },
    context: { limit_tokens: null, overflow: 'drop' },
  });
});

test('the main sub-agent without instructions of its own gets those of the release', () => {
  const config = completeReleaseConfig({ instructions: 'Top.', main: 'b', agents: [{ name: 'a' }, { name: 'b' }] });
  assert.deepEqual(config.agents, [
    { name: 'a', instructions: '' },
    { name: 'b', instructions: 'Top.' },
  ]);
  const mainOf = (...names: string[]) => completeReleaseConfig({ agents: names.map((name) => ({ name })) }).main;
  assert.deepEqual([mainOf('a', 'main'), mainOf('a', 'b')], ['main', 'a']);
});

test('a completed config completes to itself', () => {
  const config = completeReleaseConfig({
    model: { provider: 'openai-compatible', name: 'llama', base_url: 'http://127.0.0.1:11434/v1', settings: { temperature: 0 } },
    agents: [{ name: 'main', tools: ['bash'] }],
    mcp_servers: [{ name: 'crm', url: 'https://crm.example.com/mcp', credential: 'crm_token' }],
    permissions: { mode: 'locked', rules: [{ tool: 'bash', match: 'rm *', action: 'deny' }] },
  });
  assert.deepEqual(completeReleaseConfig(config), config);
});

test('a Google model may be named with its collection, and a name with a slash is good where it is not part of a URL', () => {
  const nameOf = (provider: string, name: string) => completeReleaseConfig({ model: { provider, name } }).model.name;
  for (const name of ['gemini-2.5-pro', 'models/gemini-2.5-pro', 'tunedModels/my_own-1']) assert.equal(nameOf('google', name), name);
  assert.equal(nameOf('openai', 'ft:gpt-4o/../x?'), 'ft:gpt-4o/../x?');
});

const refused: [what: string, config: unknown, message: RegExp][] = [
  ['no object', [], /^body: must be an object$/],
  ['an unknown field', { instruction: 'x' }, /^instruction: is not a known field$/],
  ['an unknown provider', { model: { provider: 'acme', name: 'x' } }, /^model\.provider: must be one of offline, /],
  ['a provider without a model', { model: { provider: 'openai' } }, /^model\.name: is required$/],
  ...googleNames(
    'gemini-2.0-flash-lite/../models/gemini-2.5-pro',
    'models/../models/gemini-2.5-pro',
    'gemini-2.5-pro:generateContent?',
    'gemini-2.5-pro#',
    'gemini%2F',
    'gemini\n',
    '..',
  ),
  ['openai-compatible without its URL', { model: { provider: 'openai-compatible', name: 'x' } }, /^model\.base_url: is required/],
  [
    'a URL with a password',
    { model: { provider: 'openai', name: 'x', base_url: 'https://a:b@x.example' } },
    /^model\.base_url: must not contain/,
  ],
  ['a URL of another kind', { mcp_servers: [{ name: 'a', url: 'file:///etc/passwd' }] }, /^mcp_servers\[0\]\.url: must be an http/],
  ['two sub-agents of one name', { agents: [{ name: 'a' }, { name: 'a' }] }, /^agents: the name "a" is used twice$/],
  ['a main that is none of them', { main: 'c', agents: [{ name: 'a' }] }, /^main: names no sub-agent; there are a$/],
  ['an unknown tool', { tools: ['sudo'] }, /^tools\[0\]: must be one of bash, files, fetch$/],
  ['an unknown mode', { permissions: { mode: 'yolo' } }, /^permissions\.mode: must be one of/],
  ['a rule without an action', { permissions: { rules: [{ tool: 'bash' }] } }, /^permissions\.rules\[0\]\.action: must be one of/],
  ['a limit out of range', { limits: { max_steps: 0 } }, /^limits\.max_steps: must be a whole number from 1/],
  [
    'a server name with the separator',
    { mcp_servers: [{ name: 'a__b', url: 'https://x.example' }] },
    /^mcp_servers\[0\]\.name: must not contain/,
  ],
  [
    'a model setting of the wrong type',
    { model: { provider: 'offline', settings: { temperature: 'hot' } } },
    /^model\.settings\.temperature: must be a number$/,
  ],
  [
    'an unknown setting of a sub-agent',
    { agents: [{ name: 'a', model: { provider: 'offline', settings: { constructor: 1 } } }] },
    /^agents\[0\]\.model\.settings\.constructor: is not known$/,
  ],
  ['instructions that are no text', { instructions: 7 }, /^instructions: must be a string$/],
  ['more than 1,000 steps', { limits: { max_steps: 1_001 } }, /^limits\.max_steps: must be a whole number from 1 to 1000$/],
  ['more than a day', { limits: { turn_timeout_s: 86_401 } }, /^limits\.turn_timeout_s: must be a whole number from 1 to 86400$/],
  ['more than 200,000 characters', { instructions: 'x'.repeat(200_001) }, /^instructions: /],
  ['more than 64 sub-agents', { agents: named(65) }, /^agents: /],
  ['more than 32 servers', { mcp_servers: named(33).map(({ name }) => ({ name, url: 'https://x.example' })) }, /^mcp_servers: /],
  ['more than 500 rules', { permissions: { rules: Array(501).fill({ tool: 'bash', action: 'ask' }) } }, /^permissions\.rules: /],
];

function googleNames(...names: string[]): [what: string, config: unknown, message: RegExp][] {
  const message = /^agents\[0\]\.model\.name: must be a name such as gemini-2\.5-pro/;
  return names.map((name) => [
    `the Google model ${JSON.stringify(name)}`,
    { agents: [{ name: 'a', model: { provider: 'google', name } }] },
    message,
  ]);
}

function named(count: number): { name: string }[] {
  return Array.from({ length: count }, (_, index) => ({ name: `n${index}` }));
}

for (const [what, config, message] of refused) {
  test(`${what} is refused, naming the field`, () => {
    assert.throws(
      () => completeReleaseConfig(config),
      (error) => error instanceof ServiceError && error.kind === 'invalid' && message.test(error.message),
    );
  });
}
