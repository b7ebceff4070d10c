import { SignatureError } from './errors.ts';

/** A delivery to your endpoint. It may come more than once: `id` stays the same. */
export interface WebhookEvent {
  id: string;
  /** `turn.completed`, `turn.requires_action`, `session.started`, ... */
  type: string;
  created_at: string;
  organization: { id: number; slug: string };
  endpoint_id: number;
  data: Record<string, unknown>;
}

/**
 * Checks a delivery and gives what it says. `payload` is the body exactly as it came, `header` is `Svc-Signature`, and
 * `toleranceSeconds` is how old it may be. Throws `SignatureError`.
 */
export async function verify(
  payload: string | Uint8Array,
  header: string | null | undefined,
  secret: string,
  toleranceSeconds = 300,
): Promise<WebhookEvent> {
  const { timestamp, signatures } = parseHeader(header ?? '');
  if (Math.abs(Date.now() / 1000 - timestamp) > toleranceSeconds)
    throw new SignatureError('The signature is too old, or the clocks of the two machines differ');
  const encoder = new TextEncoder();
  const body = typeof payload === 'string' ? encoder.encode(payload) : payload;
  const start = encoder.encode(`${timestamp}.`);
  const signed = new Uint8Array(start.length + body.length);
  signed.set(start);
  signed.set(body, start.length);
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  // All of them, always: `subtle.verify` compares in constant time, and during a rotation there are two.
  const matches = await Promise.all(signatures.map((signature) => crypto.subtle.verify('HMAC', key, signature, signed)));
  if (!matches.includes(true)) throw new SignatureError('No signature matches this payload and this secret');
  return JSON.parse(new TextDecoder().decode(body));
}

/** `t=1700000000,v1=<hex>[,v1=<hex>]` */
function parseHeader(header: string): { timestamp: number; signatures: Uint8Array<ArrayBuffer>[] } {
  const entries = header.split(',').map((entry) => entry.trim().split('='));
  const timestamp = Number(entries.find(([name]) => name === 't')?.[1] ?? Number.NaN);
  const signatures = entries.flatMap(([name, hex = '']) => (name === 'v1' && /^[0-9a-f]{64}$/i.test(hex) ? [bytesOfHex(hex)] : []));
  if (!Number.isInteger(timestamp) || signatures.length === 0)
    throw new SignatureError('The Svc-Signature header is missing or not of the form t=...,v1=...');
  return { timestamp, signatures };
}

function bytesOfHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: hex.length / 2 }, (_, index) => Number.parseInt(hex.slice(index * 2, index * 2 + 2), 16));
}
