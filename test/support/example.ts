// Runs the web server of an example: a page of another origin, with a backend that mints tokens.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { apiKey, type Owner } from './app.ts';

/** Returns its URL. */
export async function startExample(owner: Owner, name: string, parley: string): Promise<string> {
  const environment = { PATH: process.env.PATH, PARLEY_URL: parley, PARLEY_API_KEY: apiKey, PORT: '0' };
  const main = join(import.meta.dirname, '../../examples', name, 'server.mjs');
  const example = spawn(process.execPath, [main], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
  owner.after(async () => {
    if (example.exitCode !== null) return;
    const exited = once(example, 'exit');
    example.kill();
    await exited;
  });
  for await (const line of createInterface({ input: example.stdout })) {
    const address = /http:\S+/.exec(line)?.[0];
    if (address !== undefined) return address;
  }
  throw new Error(`the example ${name} did not start`);
}
