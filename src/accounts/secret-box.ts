import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';

/**
 * Encrypts what is stored but must be read again: model credentials, webhook secrets, signing keys, kept answers.
 * The context (such as `org 7`) is authenticated with it, so that a value moved to another org does not open.
 */
export interface SecretBox {
  readonly keyId: string;
  seal(plaintext: string, context: string): string;
  /** Throws when the value was sealed with another key or context, or was changed. */
  open(sealed: string, context: string): string;
  /** A secret that is computed from this key, such as the one that signs cookies. */
  derive(purpose: string): string;
}

/** The context of everything that belongs to an org. */
export function contextOfOrg(orgId: number): string {
  return `org ${orgId}`;
}

export function createSecretBox(key: Buffer): SecretBox {
  const keyId = createHash('sha256').update('parley secret key id').update(key).digest('hex').slice(0, 8);
  return {
    keyId,
    seal(plaintext, context) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
      return `v1.${keyId}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`;
    },
    open(sealed, context) {
      const [version, sealedWith, payload] = sealed.split('.');
      if (version !== 'v1' || payload === undefined) throw new Error('not a sealed value');
      if (sealedWith !== keyId) throw new Error(`sealed with the secret key ${sealedWith}, but the key in use is ${keyId}`);
      const bytes = Buffer.from(payload, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 })
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(12, 28));
      return decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8');
    },
    derive(purpose) {
      return Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), `parley ${purpose}`, 32)).toString('base64url');
    },
  };
}
