import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** Builds the widget as `npm run build` does, and returns the file that is served. */
export function buildWidget(): Buffer {
  execFileSync(process.execPath, [join(root, 'scripts/build-widget.mjs')], { stdio: ['ignore', 'ignore', 'inherit'] });
  return readFileSync(join(root, 'widget/dist/parley-chat.js'));
}
