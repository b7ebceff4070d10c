import type { Directory } from './directory.ts';
import { credentialContext } from './model-credentials.ts';
import type { SecretBox } from './secret-box.ts';

/** Opens an org's stored credential at the moment it is used; the plaintext is kept nowhere. */
export function credentialReader(directory: Directory, secrets: SecretBox): (orgId: number, name: string) => Promise<string | undefined> {
  return async (orgId, name) => {
    const sealed = await directory.sealedCredential(orgId, name);
    return sealed === undefined ? undefined : secrets.open(sealed, credentialContext(orgId));
  };
}
