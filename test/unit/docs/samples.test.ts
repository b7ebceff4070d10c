// Code and configs of the documentation that readers copy, and that no other test runs.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { test } from 'node:test';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { signatureOf } from '../../../src/outbox/signature.ts';

const root = join(import.meta.dirname, '../../..');

function blocksOf(page: string, language: string): string[] {
  const text = readFileSync(join(root, 'docs', page), 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, block = '']) => block);
}

const now = Math.floor(Date.now() / 1000);
const body = '{"type":"turn.completed","data":{"agent":"é"}}';
/** Headers, the body that comes with them, and whether the secret `whsec_svc_ours` has signed it. */
const deliveries: [header: string | undefined, body: string, accepted: boolean][] = [
  [signatureOf(['whsec_svc_ours'], now, body), body, true],
  // During a rotation.
  [signatureOf(['whsec_svc_next', 'whsec_svc_ours'], now, body), body, true],
  [signatureOf(['whsec_svc_other'], now, body), body, false],
  [signatureOf(['whsec_svc_ours'], now, `${body} `), body, false],
  [signatureOf(['whsec_svc_ours'], now - 400, body), body, false],
  ...[
    undefined,
    '',
    `t=${now}`,
    `t=${now},v1=`,
    `t=${now},v1=zz`,
    `t=${now},v1=é`,
    't=²,v1=00',
    `t=${'9'.repeat(5_000)},v1=00`,
    'v1=00',
  ].map((header): [string | undefined, string, boolean] => [header, body, false]),
];

test('the verification of a webhook in JavaScript accepts what we sign, with either secret, and nothing else', async () => {
  const [code = ''] = blocksOf('webhooks.md', 'js');
  const { verify } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  for (const [header, sent, accepted] of deliveries)
    assert.equal(verify(Buffer.from(sent), header, 'whsec_svc_ours'), accepted, header?.slice(0, 100));
});

test('so does the one in Python', (t) => {
  const program = `import json, sys
${blocksOf('webhooks.md', 'python')[0]}
print(json.dumps([verify(body.encode(), header, "whsec_svc_ours") for header, body, _ in json.load(sys.stdin)]))`;
  const { error, stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(deliveries), encoding: 'utf8' });
  if (error) return t.skip('there is no python3');
  assert.equal(stderr, '');
  assert.deepEqual(
    JSON.parse(stdout),
    deliveries.map(([, , accepted]) => accepted),
  );
});

test('the configs of releases are valid', () => {
  const configs = ['models.md', 'tools.md'].flatMap((page) => blocksOf(page, 'json'));
  assert.ok(configs.length >= 3);
  for (const config of configs) completeReleaseConfig(JSON.parse(config));
});

test('no two pages create the same agent: following one after the other would end in a conflict', () => {
  const created = globSync('docs/*.md', { cwd: root }).flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/agents create (\w[\w-]*)|\bslug['"]?: ['"]([\w-]+)['"], ['"]?name/g)].map(
      ([, typed, sent]) => typed ?? sent,
    ),
  );
  assert.ok(created.length >= 3, created.join());
  assert.deepEqual(created, [...new Set(created)]);
});

test('what the commands for an operator write into the checkout gets into neither git nor an image', () => {
  const written = blocksOf('self-hosting.md', 'sh').flatMap((block) =>
    [...block.matchAll(/ > (\w[\w./-]*)/g)].map(([, file = '']) => file),
  );
  assert.ok(written.length >= 2);
  for (const list of ['.gitignore', '.dockerignore']) {
    const ignored = readFileSync(join(root, list), 'utf8').split('\n');
    const left = written.filter((file) => !ignored.some((pattern) => matchesGlob(file, pattern)));
    assert.deepEqual(left, [], list);
  }
});
