// The client package as an application uses it: built, and in a node_modules folder.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Owner } from './app.ts';

const root = join(import.meta.dirname, '../..');

/** Creates the folder of an application whose modules can import `@parley/client` and the given packages. */
export function packClient(owner: Owner, ...packages: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'parley-application-'));
  owner.after(async () => rmSync(folder, { recursive: true, force: true }));
  const client = join(folder, 'node_modules/@parley/client');
  mkdirSync(client, { recursive: true });
  cpSync(join(root, 'client/package.json'), join(client, 'package.json'));
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [compiler, '--project', join(root, 'client'), '--outDir', join(client, 'dist')], { stdio: 'inherit' });
  for (const name of packages) symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  writeFileSync(join(folder, 'package.json'), '{"type":"module","dependencies":{"@parley/client":"*"}}');
  return folder;
}
