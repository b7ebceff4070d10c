import { contextOfOrg, type SecretBox } from '../accounts/secret-box.ts';
import type { GuardedFetch } from '../destination/guard.ts';
import { errorMessage } from '../errors.ts';
import { storable } from '../text/storable.ts';
import { deliveriesUrl } from './gateway-deliveries.ts';
import type { ClaimedDelivery } from './queue.ts';
import { signatureOf } from './signature.ts';

/** How one attempt ended. */
export interface Outcome {
  ok: boolean;
  status: number | null;
  error: string | null;
  excerpt: string;
  durationMs: number;
  /** The `Retry-After` header of a 429 or 503, not yet parsed. */
  retryAfter: string | null;
}

export interface AttemptParts {
  fetch: GuardedFetch;
  /** For deliveries to other gateways. */
  gatewayFetch: GuardedFetch;
  secrets: SecretBox;
  /** Keys to sign in to other gateways with, by their URL in the spelling of `gatewayUrl`. */
  peers: Readonly<Record<string, string>>;
  /** For one attempt, including the receiver's response. */
  timeoutMs?: number;
}

const maxAnswerBytes = 64 * 1024;
const excerptLength = 1_024;

/** Sends the delivery once. It never rejects: every failure is an outcome. `abort` ends it early when the process stops. */
export async function attemptDelivery(delivery: ClaimedDelivery, now: Date, parts: AttemptParts, abort: AbortSignal): Promise<Outcome> {
  const begun = performance.now();
  const done = (outcome: Partial<Outcome>): Outcome => ({
    ok: false,
    status: null,
    error: null,
    excerpt: '',
    retryAfter: null,
    ...outcome,
    durationMs: Math.round(performance.now() - begun),
  });
  const { timeoutMs = 15_000 } = parts;
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const signal = AbortSignal.any([abort, timeout]);
    const isGateway = delivery.endpoint_id === null;
    const headers = isGateway ? gatewayHeaders(delivery, parts) : webhookHeaders(delivery, now, parts);
    const send = isGateway ? parts.gatewayFetch : parts.fetch;
    const response = await send(delivery.url, { method: 'POST', headers, body: delivery.body, signal });
    const { status } = response;
    const excerpt = await readExcerpt(response);
    if (status >= 200 && status < 300) return done({ ok: true, status, excerpt });
    const error = status >= 300 && status < 400 ? 'Redirects are not followed.' : null;
    return done({ status, error, excerpt, retryAfter: status === 429 || status === 503 ? response.headers.get('retry-after') : null });
  } catch (error) {
    return done({ error: timeout.aborted ? `No answer within ${timeoutMs / 1_000} s.` : describe(error) });
  }
}

function webhookHeaders(delivery: ClaimedDelivery, now: Date, parts: AttemptParts): Record<string, string> {
  const timestamp = Math.floor(now.getTime() / 1_000);
  const sealed = [delivery.secret_ciphertext, isCurrent(delivery.previous_secret_until, now) ? delivery.previous_secret_ciphertext : null];
  const secrets = sealed.filter((secret) => secret !== null).map((secret) => parts.secrets.open(secret, contextOfOrg(delivery.org_id)));
  return {
    'content-type': 'application/json',
    'user-agent': 'Parley-Webhooks/1',
    'svc-event-id': delivery.id,
    'svc-event-type': delivery.type,
    'svc-timestamp': String(timestamp),
    'svc-signature': signatureOf(secrets, timestamp, delivery.body),
  };
}

function gatewayHeaders(delivery: ClaimedDelivery, parts: AttemptParts): Record<string, string> {
  const key = peerKey(parts.peers, delivery.url);
  return {
    'content-type': 'application/json',
    'user-agent': 'Parley-Gateway/1',
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
}

/** A key is sent only to the gateway that it is configured for. */
function peerKey(peers: Readonly<Record<string, string>>, url: string): string | undefined {
  return Object.entries(peers).find(([peer]) => url === deliveriesUrl(peer))?.[1];
}

function isCurrent(until: Date | null, now: Date): boolean {
  return until !== null && until > now;
}

/** The beginning of the response, for a person to read. The status already decides the outcome: a body that breaks off is no failure. */
async function readExcerpt(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return '';
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (size < maxAnswerBytes) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      size += value.byteLength;
    }
    await reader.cancel();
  } catch {
    // The connection broke: the excerpt is what arrived before.
  }
  return storable(Buffer.concat(chunks).toString('utf8').slice(0, excerptLength));
}

function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${errorMessage(error.cause)}` : '';
  return `${errorMessage(error) || 'The connection failed'}${cause}`.replaceAll('\0', '').slice(0, 500).toWellFormed();
}
