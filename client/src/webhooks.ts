import { SignatureError } from './errors.ts';

/** The body of a delivery to your endpoint. The same event may be delivered more than once, always with the same `id`. */
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
 * Checks the signature of a delivery and returns its event. `payload` is the body exactly as it was received, `header` the
 * value of `Svc-Signature`, and `toleranceSeconds` how old the signature may be. Throws `SignatureError`, or
 * `TypeError` if the secret is missing or the body has been parsed.
 */
export async function verifyWebhook(
  payload: string | Uint8Array,
  header: string | string[] | null | undefined,
  secret: string | undefined,
  toleranceSeconds = 300,
): Promise<WebhookEvent> {
  if (!secret) throw new TypeError('The secret of the webhook endpoint is missing');
  if (typeof payload !== 'string' && !(payload instanceof Uint8Array))
    throw new TypeError('The payload must be the body as it was received, not what a JSON parser made of it');
  const { timestamp, signatures } = parseHeader(String(header ?? ''));
  if (Math.abs(Date.now() / 1000 - timestamp) > toleranceSeconds)
    throw new SignatureError('The signature is too old, or the clocks of the two machines differ');
  const encoder = new TextEncoder();
  const body = typeof payload === 'string' ? encoder.encode(payload) : payload;
  const start = encoder.encode(`${timestamp}.`);
  const signed = new Uint8Array(start.length + body.length);
  signed.set(start);
  signed.set(body, start.length);
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  // While the secret is being rotated there are two signatures. `subtle.verify` compares in constant time.
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
