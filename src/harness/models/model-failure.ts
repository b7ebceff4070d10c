import { causesOf, errorCode, errorMessage, networkReason, ServiceError } from '../../errors.ts';
import { hideSecret } from '../../text/hide-secret.ts';
import { isRecord, parseJson } from '../../text/json.ts';
import { ModelError, type ModelErrorCode } from '../model.ts';

/** The provider that is called, and the key that must not appear in a message about a failure. */
export interface Called {
  provider: string;
  apiKey: string | undefined;
}

/** A failure that a provider reported, in an HTTP response or inside its stream. */
export interface ProviderFailure {
  status?: number | undefined;
  /** The provider's own code: `overloaded_error`, `context_length_exceeded`. */
  code?: string | undefined;
  /** As it came: of any length, and perhaps with the key in it. */
  message: string;
  retryAfterSeconds?: number | undefined;
}

export function failureOf(called: Called, failure: ProviderFailure): ModelError {
  // The key is hidden before the words are cut: half of it would not be known for what it is. They are short, because the time to look
  // for other words in them grows with the square of their length.
  const words = hideSecret(failure.message, called.apiKey).trim().slice(0, 500).toWellFormed() || 'no reason given';
  const code = classify({ ...failure, message: words });
  const status = failure.status === undefined ? '' : ` (${failure.status})`;
  const { retryAfterSeconds } = failure;
  return new ModelError(
    code,
    called.provider,
    `${called.provider} ${saying[code]}${status}: ${words}`,
    retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
  );
}

/** A failure that the provider did not report: of the connection or the stream, or a request that the destination guard refused. */
export function brokenOf(called: Called, error: unknown): ModelError {
  const chain = causesOf(error);
  const refused = chain.find((cause) => cause instanceof ServiceError);
  if (refused !== undefined) return new ModelError('invalid_model_request', called.provider, refused.message);
  const isNetwork = chain.some(isNetworkFailure);
  const reason = hideSecret(networkReason(chain.findLast((cause) => errorMessage(cause) !== '') ?? error), called.apiKey);
  if (isNetwork) return new ModelError('broken_stream', called.provider, `The connection to ${called.provider} failed: ${reason}`);
  return new ModelError('model_error', called.provider, `The call to ${called.provider} failed: ${reason}`);
}

/** The stream ended without saying that the answer was complete. */
export function cutOff(called: Called): ModelError {
  return new ModelError('broken_stream', called.provider, `The answer of ${called.provider} ended before it was complete`);
}

/** The longest answer that is accepted, ten times what any model produces: a server that sends more would fill our memory. */
export const maxAnswerCharacters = 4 * 2 ** 20;
/** The longest stream, in case a server never ends an event. An answer of `maxAnswerCharacters`, with an event a word, is far shorter. */
export const maxStreamBytes = 128 * 2 ** 20;
/** Calls and blocks of reasoning in one answer, each of which becomes an event. */
export const maxAnswerParts = 1_000;

export function tooLong(called: Called): ModelError {
  return new ModelError('model_error', called.provider, `The answer of ${called.provider} is longer than any that is taken`);
}

/** Reads the failure from an error body in any of the usual formats. */
export function readFailure(body: unknown, status?: number, headers?: Pick<Headers, 'get'>): ProviderFailure {
  const parsed = typeof body === 'string' ? parseJson(body) : body;
  // Google wraps the error of a stream in an array.
  const root = Array.isArray(parsed) ? parsed[0] : parsed;
  const error = isRecord(root) && root.error !== undefined ? root.error : root;
  const message = wordsOf(error) ?? (typeof body === 'string' ? body : '');
  const code = isRecord(error) ? [error.code, error.type, error.status].filter((word) => typeof word === 'string').join(' ') : '';
  const retryAfterSeconds = retryAfter(headers) ?? googleRetryDelay(error);
  return {
    status: status ?? statusIn(error),
    // Short for the same reason as the words are.
    code: code.slice(0, 500),
    message,
    retryAfterSeconds,
  };
}

const saying: Record<ModelErrorCode, string> = {
  byok_key_rejected: 'rejected the API key',
  rate_limited: 'limits the rate of calls',
  overloaded: 'is overloaded',
  broken_stream: 'broke off its answer',
  context_length_exceeded: 'says that the conversation is too long for the model',
  invalid_model_request: 'refused the request',
  model_error: 'failed',
};

function classify({ status, code = '', message }: ProviderFailure): ModelErrorCode {
  const isClientError = status === undefined || (status >= 400 && status < 500);
  if (status === 401 || status === 403 || keyRejected.test(code) || keyRejected.test(message)) return 'byok_key_rejected';
  if (status === 429 || rateLimited.test(code)) return 'rate_limited';
  if (status === 503 || status === 529 || overloaded.test(code)) return 'overloaded';
  if (isClientError && (contextExceeded.test(code) || contextExceeded.test(message))) return 'context_length_exceeded';
  if ((status !== undefined && isClientError) || /invalid_request/.test(code)) return 'invalid_model_request';
  return 'model_error';
}

// Google answers a bad key with 400.
const keyRejected = /authentication_error|permission_error|invalid_api_key|API_KEY_INVALID|API key not valid/;
const rateLimited = /rate_limit|RESOURCE_EXHAUSTED|insufficient_quota/;
const overloaded = /overloaded|UNAVAILABLE/;
const contextExceeded =
  /context_length_exceeded|context.?(length|window|size)|prompt is too long|input is too long|maximum context|input token count.*exceeds|exceed.*context|too many (input )?tokens/i;

function isNetworkFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (networkCode.test(errorCode(error) ?? '')) return true;
  // A chunk that is not JSON means that the stream was cut.
  return error instanceof SyntaxError || networkWords.test(error.message);
}

const networkCode =
  /^(ECONN|EPIPE|ETIME|ENOTFOUND|ENODATA|ESERVFAIL|EREFUSED|EBADRESP|EFORMERR|EAI_|EHOST|ENET|UND_ERR_|ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HPE_)/;
const networkWords = /^(fetch failed|terminated|other side closed|Network error)/i;

function wordsOf(error: unknown): string | undefined {
  if (typeof error === 'string') return error;
  if (!isRecord(error)) return undefined;
  for (const words of [error.message, error.detail]) if (typeof words === 'string') return words;
  return undefined;
}

/** Some gateways put the provider's status into an error inside the stream. */
function statusIn(error: unknown): number | undefined {
  if (!isRecord(error)) return undefined;
  const status = Number(error.code ?? error.status_code ?? error.statusCode);
  return Number.isInteger(status) && status >= 400 && status < 600 ? status : undefined;
}

function retryAfter(headers: Pick<Headers, 'get'> | undefined): number | undefined {
  const milliseconds = Number(headers?.get('retry-after-ms') ?? Number.NaN);
  if (milliseconds >= 0) return Math.ceil(milliseconds / 1000);
  const value = headers?.get('retry-after');
  if (value === undefined || value === null) return undefined;
  const seconds = /^\s*\d+(\.\d+)?\s*$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}

function googleRetryDelay(error: unknown): number | undefined {
  const details: unknown[] = isRecord(error) && Array.isArray(error.details) ? error.details : [];
  for (const detail of details) {
    const delay = isRecord(detail) && typeof detail.retryDelay === 'string' ? Number.parseFloat(detail.retryDelay) : Number.NaN;
    if (delay >= 0) return Math.ceil(delay);
  }
  return undefined;
}
