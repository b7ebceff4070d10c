import type { Directory } from '../accounts/directory.ts';
import type { ReleaseConfig } from '../release-config.ts';

/** Whether new sessions of this release run on the customer's own key, which no exhausted credits can stop. */
export async function runsOnOwnKey(directory: Directory, orgId: number, config: ReleaseConfig): Promise<boolean> {
  const { provider } = config.agents.find(({ name }) => name === config.main)?.model ?? config.model;
  return provider !== 'offline' && (await directory.sealedCredential(orgId, provider)) !== undefined;
}
