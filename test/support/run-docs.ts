// Commands of the documentation, run as a reader would run them: block after block, filling in what they were shown.
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
  /** Runs a block and gives what it printed. Throws when one of its commands fails, and for curl that is also a refusal. */
  run(block: string): Promise<string>;
}

/** `environment` is what the reader has set; `url` is where their server is. */
export function startReading(url: string, environment: Record<string, string>): Reader {
  const known = new Map(Object.entries(environment));
  let setUp = 'shopt -s expand_aliases\ncurl() { command curl --fail-with-body --silent --show-error --max-time 20 "$@"; }\n';
  let requestId = 'req_not_seen_yet';
  return {
    async run(block) {
      // Nothing is sent to anybody else: a webhook of the reader's goes to the same server.
      const own = block.replaceAll(/http:\/\/127\.0\.0\.1:8080|https:\/\/example\.com/g, url);
      const here = own.replaceAll('req_...', requestId);
      // A line such as `export PARLEY_API_KEY=svc_live_...` stands for what the reader was shown.
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
