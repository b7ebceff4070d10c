import type { LookupFunction } from 'node:net';
import { isIP } from 'node:net';
import type { Agent, buildConnector, Pool } from 'undici';
import { ServiceError } from '../errors.ts';
import { loadOnce } from '../work/load-once.ts';
import { type Answer, exchange } from './exchange.ts';
import { followRedirects } from './redirects.ts';
import { createDnsResolve, type Resolve, resolveBySystem } from './resolve.ts';
import { hostOf, type Rules, refusedAddress, refusedForm, refusedUrl } from './rules.ts';

/**
 * The destination guard: every request to a URL that a customer can set goes through it, so that nobody can reach the
 * operator's own network. The address is checked while the socket is connected, and the socket connects to that address
 * only. So an IP address in the URL, a name that resolves differently the second time (DNS rebinding) and a kept-alive
 * connection are all covered.
 */
export interface DestinationPolicy extends Rules {
  /** Permits plain HTTP and private addresses. Metadata services and the ports of other services stay refused. */
  allowPrivate: boolean;
  /** The setting behind `allowPrivate`, which a refusal names if the setting would have permitted the request. */
  liftedBy?: string;
  /** Origins that the operator chose. Only the form of their URLs is checked. */
  exemptOrigins?: readonly string[];
  /** Redirects to follow, each checked like the first URL. By default none: the caller gets the 3xx response. */
  maxRedirects?: number;
  resolve?: Resolve;
}

export type GuardedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** One kind of outgoing request, with its own rules and its own connections. */
export interface Guard {
  fetch: GuardedFetch;
  /** The same for less CPU, for callers that need no whole `Response`. */
  ask(url: string | URL, init: RequestInit): Promise<Answer>;
  /**
   * Throws what a request to this URL would throw, so that a customer hears of it when they store the URL. A name that does
   * not resolve now is accepted: the resolver may be down for a moment, and every connection is checked again.
   */
  check(url: string): Promise<void>;
}

/** The caller keeps it for the life of the process; idle connections do not keep the process running. */
export function createGuard(policy: DestinationPolicy): Guard {
  const exemptOrigins = new Set((policy.exemptOrigins ?? []).map((origin) => new URL(origin).origin));
  const agents = loadOnce(() => openAgents(policy));

  async function send(url: URL, init: RequestInit): Promise<Answer> {
    const isExempt = exemptOrigins.has(url.origin);
    assertUrl(url, policy, isExempt);
    const { guarded, exempt } = await agents.get();
    return exchange(url, init, isExempt ? exempt : guarded);
  }

  async function ask(url: string | URL, init: RequestInit): Promise<Answer> {
    return followRedirects(parseUrl(url), init, policy.maxRedirects ?? 0, send);
  }

  async function fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const answer = input instanceof Request ? await ask(input.url, { ...optionsOf(input), ...init }) : await ask(input, init);
    return answer.toResponse();
  }

  async function check(input: string): Promise<void> {
    const url = parseUrl(input);
    const isExempt = exemptOrigins.has(url.origin);
    assertUrl(url, policy, isExempt);
    const host = hostOf(url.hostname);
    if (isExempt || policy.allowPrivate || isIP(host) !== 0) return;
    const deadline = AbortSignal.timeout(resolveTimeoutMs);
    const expired = new Promise<[]>((settle) => deadline.addEventListener('abort', () => settle([]), { once: true }));
    const addresses = await Promise.race([resolveOf(policy)(host).catch(() => []), expired]);
    const refused = refusalOfAny(url.host, addresses, policy);
    if (refused !== undefined) throw refused;
  }

  return { ask, fetch, check };
}

/** Called with the first request: undici takes 8 MiB, which a server that sends no requests saves. */
async function openAgents(policy: DestinationPolicy): Promise<{ guarded: Agent; exempt: Agent }> {
  const undici = await import('undici');
  return {
    guarded: openGuardedAgent(policy, undici),
    exempt: new undici.Agent({ ...agentOptions, factory: poolFactory(undici), connect: socketOptions }),
  };
}

/**
 * undici's agent has a pool for each origin and drops it when its last connection closes, unless a request is pending. One that is
 * aborted still counts as pending while its connection closes, so its pool would be kept forever: 22 kB for each origin of which an
 * answer was cut off. So the agent is told of the end of that connection once more, when the request is gone.
 */
function poolFactory({ Pool }: typeof import('undici')): (origin: string | URL, options: Pool.Options) => Pool {
  return (origin, options) => {
    const pool = new Pool(origin, options);
    return pool.on('disconnect', (...ended) => {
      setImmediate(() => {
        const { connected, size } = pool.stats;
        if (!pool.closed && connected === 0 && size === 0) pool.emit('disconnect', ...ended);
      });
    });
  };
}

function openGuardedAgent(policy: DestinationPolicy, undici: typeof import('undici')): Agent {
  const resolve = resolveOf(policy);

  // node:net connects only to addresses that this returns. For a host that is an IP address there is no lookup: see `connect`.
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

  const open = undici.buildConnector({ ...socketOptions, lookup: checkedLookup, autoSelectFamily: true });
  const connect: buildConnector.connector = (options, callback) => {
    const literal = hostOf(options.hostname);
    const error = isIP(literal) === 0 ? undefined : refusalOf(options.hostname, (rules) => refusedAddress(literal, rules), policy);
    if (error !== undefined) return callback(error, null);
    open(options, callback);
  };
  return new undici.Agent({ ...agentOptions, factory: poolFactory(undici), connect });
}

function assertUrl(url: URL, policy: DestinationPolicy, isExempt: boolean): void {
  const refused = refusalOf(url.host || url.protocol, (rules) => (isExempt ? refusedForm(url) : refusedUrl(url, rules)), policy);
  if (refused !== undefined) throw refused;
}

/** A name is refused if any of its addresses is refused: the connection could go to each of them. */
function refusalOfAny(host: string, addresses: readonly { address: string }[], policy: DestinationPolicy): ServiceError | undefined {
  for (const { address } of addresses) {
    const refused = refusalOf(host, (rules) => refusedAddress(address, rules), policy);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

/** `check` gives the reason for a refusal. It is asked again with private addresses allowed, to know what the setting would lift. */
function refusalOf(host: string, check: (rules: Rules) => string | undefined, policy: DestinationPolicy): ServiceError | undefined {
  const reason = check(policy);
  if (reason === undefined) return undefined;
  const remaining = check({ allowPrivate: true });
  const isLifted = policy.liftedBy !== undefined && remaining !== reason;
  const hint = isLifted ? ` (${policy.liftedBy}=1 allows private addresses and plain HTTP)` : '';
  const rest = isLifted && remaining !== undefined ? `, and it ${remaining}` : '';
  return new ServiceError('invalid', `The destination ${host} is refused: it ${reason}${hint}${rest}`, { code: 'destination_refused' });
}

function parseUrl(input: string | URL): URL {
  if (input instanceof URL) return input;
  const url = URL.parse(input);
  if (url === null) throw new ServiceError('invalid', 'The destination is not a valid URL', { code: 'destination_refused' });
  return url;
}

function optionsOf({ method, headers, body, signal }: Request): RequestInit {
  return { method, headers, body, signal };
}

/** Where private addresses are allowed, names may be internal ones, which only the system knows. */
function resolveOf({ resolve, allowPrivate }: DestinationPolicy): Resolve {
  return resolve ?? (allowPrivate ? resolveBySystem : resolveByDns);
}

const resolveByDns = createDnsResolve();

const connectTimeoutMs = 10_000;
/** Without read-ahead (`highWaterMark: 0`), chunks gathered by `AnswerBody` stay in the kernel until one read takes them all. */
const socketOptions = { highWaterMark: 0, allowH2: false, timeout: connectTimeoutMs };
const agentOptions = { allowH2: false, keepAliveTimeout: 10_000, keepAliveMaxTimeout: 60_000 };
const resolveTimeoutMs = 3_000;
