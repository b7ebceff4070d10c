import { lookup, Resolver } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../errors.ts';

export type Resolve = (hostname: string) => Promise<{ address: string; family: number }[]>;

/** As other programs of the system do, with its hosts file and its search domains. */
export function resolveBySystem(hostname: string): ReturnType<Resolve> {
  return lookup(hostname, { all: true });
}

/**
 * Asks the DNS servers of the system. `resolveBySystem` looks up two names at a time: with a few names whose servers never answer, which
 * anybody can have, one customer could keep all others from connecting to anything for minutes.
 */
export function createDnsResolve({ servers, timeoutMs = 1_500 }: { servers?: readonly string[]; timeoutMs?: number } = {}): Resolve {
  let current: { resolver: Resolver; madeAt: number } | undefined;

  /** One for many names, because each has a socket of its own. It knows only the servers that the system had when it was made. */
  function resolverNow(): Resolver {
    if (current !== undefined && performance.now() - current.madeAt < keptMs) return current.resolver;
    // It adapts to the answers that it got. After quick ones it tries again within a second, whatever `timeout` says: hence five tries, for
    // names whose own servers take a few seconds. After slow ones it would wait up to five seconds: hence `maxTimeout`.
    const resolver = new Resolver({ timeout: timeoutMs, maxTimeout: timeoutMs, tries: 5 });
    if (servers !== undefined) resolver.setServers(servers);
    current = { resolver, madeAt: performance.now() };
    return resolver;
  }

  return async (hostname) => {
    const resolver = resolverNow();
    const asked = { four: resolver.resolve4(hostname), six: resolver.resolve6(hostname) };
    // Some servers never answer when they are asked for IPv6 addresses.
    const waited = asked.four.then(
      () => sleep<string[]>(sixAfterFourMs, [], { ref: false }),
      () => asked.six,
    );
    const [four, six] = await Promise.allSettled([asked.four, Promise.race([asked.six, waited])]);
    const addresses = [
      ...(four.status === 'fulfilled' ? four.value.map((address) => ({ address, family: 4 })) : []),
      ...(six.status === 'fulfilled' ? six.value.map((address) => ({ address, family: 6 })) : []),
    ];
    if (addresses.length > 0 || four.status === 'fulfilled') return addresses;
    // There is no DNS server: the system may know another way.
    if (errorCode(four.reason) === 'ECONNREFUSED') return resolveBySystem(hostname);
    throw four.reason;
  };
}

const keptMs = 10_000;
const sixAfterFourMs = 1_000;
