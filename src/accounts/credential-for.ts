import type { Directory } from './directory.ts';
import { contextOfOrg, type SecretBox } from './secret-box.ts';

/** The credential of that name that the org stored. */
export type CredentialFor = (orgId: number, name: string) => Promise<string | undefined>;

/** Opens an org's stored credential at the moment it is used; the plaintext is kept nowhere. */
export function credentialReader(directory: Directory, secrets: SecretBox): CredentialFor {
  return async (orgId, name) => {
    const sealed = await directory.sealedCredential(orgId, name);
    return sealed === undefined ? undefined : secrets.open(sealed, contextOfOrg(orgId));
  };
}
