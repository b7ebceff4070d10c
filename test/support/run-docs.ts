// Runs the commands of a documentation page as a reader would: block after block, with the values that earlier commands printed.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '../..');

/** The blocks of shell commands of a page, in order. */
export function shellBlocks(page: string): string[] {
  return [...readFileSync(join(root, page), 'utf8').matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
}

export interface Reader {
  /** Runs a block and returns its output. Throws when one of its commands fails, or when curl gets an error status. */
  run(block: string): Promise<string>;
}

/** `environment` has the variables that the reader has set; `url` is the address of their server. */
export function startReading(url: string, environment: Record<string, string>): Reader {
  const known = new Map(Object.entries(environment));
  let setUp = 'shopt -s expand_aliases\ncurl() { command curl --fail-with-body --silent --show-error --max-time 20 "$@"; }\n';
  let requestId = 'req_not_seen_yet';
  return {
    async run(block) {
      // No request leaves the machine: also the page's example.com, to which webhooks go, becomes the server itself.
      const own = block.replaceAll(/http:\/\/127\.0\.0\.1:8080|https:\/\/example\.com/g, url);
      const here = own.replaceAll('req_...', requestId);
      // Left out: a line such as `export PARLEY_API_KEY=svc_live_...` is a placeholder for a value from `environment`.
      const lines = here.split('\n').filter((line) => !/^export \w+=.*\.\.\./.test(line));
      setUp += lines.filter((line) => /^(alias|export) /.test(line)).join('\n');
      const script = `set -e\n${setUp}\n${lines.filter((line) => !/^(alias|export) /.test(line)).join('\n')}`;
      const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...Object.fromEntries(known) };
      const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: root, env, timeout: 60_000 });
      requestId = /req_[0-9A-Z]+/.exec(stdout)?.[0] ?? requestId;
      known.set('REQUEST_ID', requestId);
      return stdout;
    },
  };
}
