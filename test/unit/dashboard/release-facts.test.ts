import assert from 'node:assert/strict';
import { test } from 'node:test';
import { comparedText, configText, instructionsOf, withoutRepetition } from '../../../dashboard/src/pages/agents/release-facts.ts';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';

const written: Record<string, object> = {
  'one sub-agent': { instructions: 'Be brief.' },
  'one of another name': { instructions: 'Be brief.', main: 'desk' },
  'several, the main one without instructions': {
    instructions: 'Be brief.',
    agents: [{ name: 'main' }, { name: 'billing', instructions: 'B' }],
  },
  'one with tools of its own': { instructions: 'Be brief.', agents: [{ name: 'main', tools: ['files'] }] },
};

for (const [name, input] of Object.entries(written))
  test(`a release is changed where its instructions are shown: ${name}`, () => {
    const stored = completeReleaseConfig(input);
    const shown = withoutRepetition({ ...stored });
    assert.equal(JSON.stringify(shown).split('Be brief.').length, 2);
    assert.deepEqual(completeReleaseConfig(shown), stored);
    const changed = completeReleaseConfig({ ...shown, instructions: 'Be kind.' });
    assert.equal(changed.agents.find((agent) => agent.name === changed.main)?.instructions, 'Be kind.');
  });

test('instructions that the main sub-agent has itself stay where they are', () => {
  const stored = completeReleaseConfig({ instructions: 'A', agents: [{ name: 'main', instructions: 'B' }] });
  assert.deepEqual(withoutRepetition({ ...stored }), stored);
});

test('instructions of several lines are compared line by line, and a backslash in them is no line break', () => {
  const text = comparedText(configText({ instructions: 'Be brief.\nBe kind.\n', path: 'C:\\new' }));
  assert.deepEqual(text.split('\n'), ['{', '  "instructions": "Be brief.', '    Be kind.', '    ', '  "', '  "path": "C:\\\\new"', '}']);
});

test('what is added at the end of a list or of instructions is no change of what was the last before', () => {
  const lines = (config: object) => comparedText(configText({ ...config, path: 'C' })).split('\n');
  const changes: [before: object, after: object, added: string[]][] = [
    [{ tools: ['files'] }, { tools: ['files', 'bash'] }, ['    "bash"']],
    [{ instructions: 'Hi.\nBe kind.' }, { instructions: 'Hi.\nBe kind.\nBe brief.' }, ['    Be brief.']],
    [{ instructions: 'Hi.\nBe kind,' }, { instructions: 'Hi.\nBe kind,\n' }, ['    ']],
  ];
  for (const [before, after, added] of changes) {
    const kept = lines(before);
    const found = lines(after);
    assert.deepEqual(
      found.filter((line) => !kept.includes(line)),
      added,
    );
    assert.deepEqual(
      found.filter((line) => !added.includes(line)),
      kept,
    );
  }
});

test('the instructions have a field of their own, unless the main sub-agent has others', () => {
  assert.equal(instructionsOf({ instructions: 'A', main: 'main' }), 'A');
  assert.equal(instructionsOf({}), '');
  assert.equal(instructionsOf({ instructions: 'A', main: 'main', agents: [{ name: 'main' }, { name: 'b', instructions: 'B' }] }), 'A');
  assert.equal(instructionsOf({ instructions: 'A', main: 'main', agents: [{ name: 'main', instructions: 'B' }] }), undefined);
  assert.equal(instructionsOf({ instructions: 3, agents: [null] }), undefined);
});
