// The example shop of examples/widget as a process: a page of another origin, with a backend that mints tokens.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { apiKey, type Owner } from './app.ts';

const main = join(import.meta.dirname, '../../examples/widget/server.mjs');

/** Gives the shop's address. */
export async function startShop(owner: Owner, parley: string): Promise<string> {
  const environment = { PATH: process.env.PATH, PARLEY_URL: parley, PARLEY_API_KEY: apiKey, PORT: '0' };
  const shop = spawn(process.execPath, [main], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
  owner.after(async () => {
    if (shop.exitCode !== null) return;
    const exited = once(shop, 'exit');
    shop.kill();
    await exited;
  });
  for await (const line of createInterface({ input: shop.stdout })) {
    const address = /http:\S+/.exec(line)?.[0];
    if (address !== undefined) return address;
  }
  throw new Error('the shop did not start');
}
