import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { isIP } from 'node:net';
import type { Agent, buildConnector } from 'undici';
import { ServiceError } from '../errors.ts';
import { loadOnce } from '../load-once.ts';
import { exchange } from './exchange.ts';
import { followRedirects } from './redirects.ts';
import { hostOf, type Rules, refusedAddress, refusedForm, refusedUrl } from './rules.ts';

/**
 * The destination guard: every request to a URL that a customer can set goes through one of these.
 * A socket is connected only to an address that was checked in that same connect, so neither a literal, nor a name
 * that answers differently the second time, nor a kept-alive connection gets around it.
 */
export interface DestinationPolicy extends Rules {
  /** Lifts the HTTPS-and-public rule for this kind of use. Metadata services and foreign ports stay refused. */
  allowPrivate: boolean;
  /** The setting that lifts it, named in every refusal that it would lift. */
  liftedBy?: string;
  /** Origins that the operator chose, exempt from every rule but those on the form of a URL. */
  exemptOrigins?: readonly string[];
  /** Redirects to follow, each checked like the first URL. None by default: the 3xx is the answer. */
  maxRedirects?: number;
  resolve?: Resolve;
}

export type Resolve = (hostname: string) => Promise<{ address: string; family: number }[]>;

export type GuardedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** The caller keeps it for the life of the process; its idle connections hold no process open. */
export function createGuardedFetch(policy: DestinationPolicy): GuardedFetch {
  const origins = originsOf(policy);
  const agents = loadOnce(() => openAgents(policy));

  async function send(url: URL, init: RequestInit): Promise<Response> {
    const isExempt = origins.has(url.origin);
    assertUrl(url, policy, isExempt);
    const { guarded, exempt } = await agents.get();
    return exchange(url, init, isExempt ? exempt : guarded);
  }

  return async (input, init = {}) => {
    if (input instanceof Request) return sendRequest(input, init);
    return followRedirects(parseUrl(input), init, policy.maxRedirects ?? 0, send);
  };

  function sendRequest(input: Request, init: RequestInit): Promise<Response> {
    const { method, headers, body, signal } = input;
    const own: RequestInit = { method, headers, body, signal, ...(body === null ? {} : { duplex: 'half' }) };
    return followRedirects(parseUrl(input.url), { ...own, ...init }, policy.maxRedirects ?? 0, send);
  }
}

/**
 * Says at creation time what a request would say later. A name that does not resolve now is let through, since every
 * connect checks again and a resolver may be briefly down.
 */
export async function checkDestination(input: string | URL, policy: DestinationPolicy): Promise<void> {
  const url = parseUrl(input);
  const isExempt = originsOf(policy).has(url.origin);
  assertUrl(url, policy, isExempt);
  const host = hostOf(url.hostname);
  if (isExempt || policy.allowPrivate || isIP(host) !== 0) return;
  const deadline = AbortSignal.timeout(resolveTimeoutMs);
  const expired = new Promise<[]>((settle) => deadline.addEventListener('abort', () => settle([]), { once: true }));
  const addresses = await Promise.race([(policy.resolve ?? resolveHost)(host).catch(() => []), expired]);
  const refused = refusalOfAny(url.host, addresses, policy);
  if (refused !== undefined) throw refused;
}

/** With the first request: a server that has sent none goes without the 8 MiB of what sends them. */
async function openAgents(policy: DestinationPolicy): Promise<{ guarded: Agent; exempt: Agent }> {
  const undici = await import('undici');
  return { guarded: createDispatcher(policy, undici), exempt: new undici.Agent({ ...connections, connect: sockets }) };
}

function createDispatcher(policy: DestinationPolicy, undici: typeof import('undici')): Agent {
  const resolve = policy.resolve ?? resolveHost;

  // node:net connects to the answer of this and to nothing else. It never asks for a literal; `connect` checks those.
  const checkedLookup: LookupFunction = (hostname, options, callback) => {
    resolve(hostOf(hostname)).then(
      (addresses) => {
        const error = refusalOfAny(hostname, addresses, policy);
        const [first] = addresses;
        if (error !== undefined || first === undefined) return callback(error ?? new Error(`${hostname} has no address`), '', 0);
        if (options.all === true) return callback(null, addresses);
        callback(null, first.address, first.family);
      },
      (error) => callback(error, '', 0),
    );
  };

  const open = undici.buildConnector({ ...sockets, lookup: checkedLookup, autoSelectFamily: true });
  const connect: buildConnector.connector = (options, callback) => {
    const literal = hostOf(options.hostname);
    const error = isIP(literal) === 0 ? undefined : refusalOf(options.hostname, (rules) => refusedAddress(literal, rules), policy);
    if (error !== undefined) return callback(error, null);
    open(options, callback);
  };
  return new undici.Agent({ ...connections, connect });
}

function assertUrl(url: URL, policy: DestinationPolicy, isExempt: boolean): void {
  const refused = refusalOf(url.host || url.protocol, (rules) => (isExempt ? refusedForm(url) : refusedUrl(url, rules)), policy);
  if (refused !== undefined) throw refused;
}

/** A name is refused when one of its addresses is: the connection could go to any of them. */
function refusalOfAny(host: string, addresses: readonly { address: string }[], policy: DestinationPolicy): ServiceError | undefined {
  for (const { address } of addresses) {
    const refused = refusalOf(host, (rules) => refusedAddress(address, rules), policy);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function refusalOf(host: string, reasonUnder: (rules: Rules) => string | undefined, policy: DestinationPolicy): ServiceError | undefined {
  const reason = reasonUnder(policy);
  if (reason === undefined) return undefined;
  const isLifted = policy.liftedBy !== undefined && reasonUnder({ allowPrivate: true }) === undefined;
  const hint = isLifted ? ` (${policy.liftedBy}=1 allows private addresses and plain HTTP)` : '';
  return new ServiceError('invalid', `The destination ${host} is refused: it ${reason}${hint}`, { code: 'destination_refused' });
}

function parseUrl(input: string | URL): URL {
  if (input instanceof URL) return input;
  const url = URL.parse(input);
  if (url === null) throw new ServiceError('invalid', 'The destination is not a valid URL', { code: 'destination_refused' });
  return url;
}

function originsOf(policy: DestinationPolicy): ReadonlySet<string> {
  return new Set((policy.exemptOrigins ?? []).map((origin) => new URL(origin).origin));
}

function resolveHost(hostname: string): Promise<{ address: string; family: number }[]> {
  return lookup(hostname, { all: true });
}

const connectTimeoutMs = 10_000;
/** Nothing is read ahead of the answer's reader, so that one who gathers words finds them together, at the cost of one read. */
const sockets = { highWaterMark: 0, allowH2: false, timeout: connectTimeoutMs };
const connections = { allowH2: false, keepAliveTimeout: 10_000, keepAliveMaxTimeout: 60_000 };
const resolveTimeoutMs = 3_000;
