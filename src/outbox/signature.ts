import { createHmac, randomBytes } from 'node:crypto';

export function newSigningSecret(): string {
  return `whsec_svc_${randomBytes(32).toString('base64url')}`;
}

/** Stripe's scheme: HMAC-SHA256 over `<timestamp>.<raw body>`, with one `v1` for each secret that is currently valid. */
export function signatureOf(secrets: readonly string[], timestamp: number, body: string): string {
  const digests = secrets.map((secret) => createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex'));
  return [`t=${timestamp}`, ...digests.map((digest) => `v1=${digest}`)].join(',');
}
