// Code and configs of the documentation that readers copy, and that no other test runs.
import assert from 'node:assert/strict';
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

test('the verification of a webhook in JavaScript accepts what we sign, with either secret, and nothing else', async () => {
  const [code = ''] = blocksOf('webhooks.md', 'js');
  const { verify } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  const now = Math.floor(Date.now() / 1000);
  const body = '{"type":"turn.completed","data":{"agent":"é"}}';
  const accepted = (header: string | undefined) => verify(Buffer.from(body), header, 'whsec_svc_ours');
  assert.equal(accepted(signatureOf(['whsec_svc_ours'], now, body)), true);
  assert.equal(accepted(signatureOf(['whsec_svc_next', 'whsec_svc_ours'], now, body)), true, 'during a rotation');
  assert.equal(accepted(signatureOf(['whsec_svc_other'], now, body)), false);
  assert.equal(accepted(signatureOf(['whsec_svc_ours'], now, `${body} `)), false);
  assert.equal(accepted(signatureOf(['whsec_svc_ours'], now - 400, body)), false, 'old');
  for (const header of [undefined, '', `t=${now}`, `t=${now},v1=`, `t=${now},v1=zz`, 'v1=00'])
    assert.equal(accepted(header), false, header);
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
