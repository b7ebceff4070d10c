import { LRUCache } from 'lru-cache';
import type { Directory } from '../accounts/directory.ts';
import type { SecretBox } from '../accounts/secret-box.ts';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import type { Model } from '../harness/model.ts';
import { createModel } from '../harness/models/create-model.ts';
import { parsePrices } from '../harness/models/prices.ts';
import { createShellPool } from '../harness/tools/bash-pool.ts';
import { createTools } from '../harness/tools/create-tools.ts';
import { workspaceOf } from '../instances/workspace.ts';
import { createGuardedFetch } from '../outbox/destination.ts';
import type { ModelConfig, Provider } from '../release-config.ts';
import { Settings } from './settings.ts';

/** Puts the real parts together: guarded requests, models with their keys, tools, the workspace in the database. */
export function createSettings(
  config: Config,
  database: Database,
  directory: Directory,
  _secrets: SecretBox,
): { settings: Settings; close(): Promise<void> } {
  const allowPrivate = config.PARLEY_ALLOW_PRIVATE_UPSTREAMS;
  const upstreamFetch = createGuardedFetch({ allowPrivate, liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' });
  const toolFetch = createGuardedFetch({ allowPrivate, liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS', maxRedirects: 5 });
  const shell = createShellPool();
  const models = new LRUCache<string, Model>({ max: 1_000 });
  const operatorKeys: Partial<Record<Provider, string | undefined>> = {
    openai: config.OPENAI_API_KEY,
    anthropic: config.ANTHROPIC_API_KEY,
    google: config.GOOGLE_GENERATIVE_AI_API_KEY,
  };

  async function modelFor(orgId: number, model: ModelConfig): Promise<{ model: Model; ownKey: boolean }> {
    const key = `${orgId} ${JSON.stringify(model)}`;
    const known = models.get(key) ?? createModel(model, { apiKey: operatorKeys[model.provider], fetch: upstreamFetch });
    models.set(key, known);
    return { model: known, ownKey: false };
  }

  const settings = new Settings({
    db: database.db,
    directory,
    prices: parsePrices(config.PARLEY_PRICES),
    modelFor,
    paysItself: () => false,
    toolsFor: (_session, release, agent) =>
      createTools({
        names: agent.tools ?? release.config.tools,
        agent: agent.name,
        agents: release.config.agents.map((other) => other.name),
        shell,
        fetch: toolFetch,
      }),
    workspaceFor: (session) => workspaceOf(database.db, session),
  });
  return {
    settings,
    async close() {
      shell.close();
    },
  };
}
