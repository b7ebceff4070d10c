import type { Owner } from './app.ts';
import { startExample } from './example.ts';

/** The example shop of examples/widget. Gives its address. */
export function startShop(owner: Owner, parley: string): Promise<string> {
  return startExample(owner, 'widget', parley);
}
