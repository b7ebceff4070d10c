import { MutationCache, notifyManager, QueryCache, QueryClient, type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { chooseOrganization, get, RequestError, request, stayWith } from './request.ts';
import type { Agent, List, SignedIn } from './types.ts';

const sessionKey = ['/dashboard/session'];

// By default a page hears of its own request a task later: until then the button still takes the second click of a double one.
notifyManager.setScheduler(queueMicrotask);

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeSignedOut }),
  mutationCache: new MutationCache({ onError: noticeSignedOut }),
  defaultOptions: {
    // Without a network a request fails like any other: it would else wait unsaid, and an approval be given when it is back.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5_000,
      retry: isWorthRepeating,
      retryDelay: (count, error) => (error instanceof RequestError && error.waitMs) || Math.min(1_000 * 2 ** count, 8_000),
      refetchOnWindowFocus: true,
    },
  },
});

/** While the server is away every query waits for it. One that has too much to do is asked a few times; what it refused, it will refuse again. */
function isWorthRepeating(count: number, error: Error): boolean {
  if (!(error instanceof RequestError)) return false;
  return error.status === 0 || (count < 5 && (error.isPassing || error.status === 429));
}

/** What is refused for want of a login may be the first sign that it ended: whoever shows the page asks for a new one. */
function noticeSignedOut(error: Error): void {
  if (error instanceof RequestError && error.status === 401 && isSignedIn()) void queryClient.invalidateQueries({ queryKey: sessionKey });
}

/** As far as the server's last answer goes. */
function isSignedIn(): boolean {
  return queryClient.getQueryState(sessionKey)?.status === 'success';
}

/** Resolves when this person has signed in again, or the signal says that nobody waits for it any more. */
export async function untilSignedIn(signal: AbortSignal): Promise<void> {
  while (!signal.aborted && !isSignedIn()) await new Promise((resolve) => setTimeout(resolve, 300));
}

/** Reads again whether this person is signed in. */
export async function checkSignedIn(): Promise<boolean> {
  await queryClient.invalidateQueries({ queryKey: sessionKey });
  return isSignedIn();
}

export function useSession(): UseQueryResult<SignedIn, Error> {
  return useQuery<SignedIn>({ queryKey: sessionKey, queryFn: readSession, staleTime: 60_000 });
}

async function readSession(): Promise<SignedIn> {
  const session = await get<SignedIn>('/dashboard/session').catch(readElsewhere);
  stayWith(session.organization.slug);
  return session;
}

/** The org of this tab may be one that this person was removed from, or that somebody else chose in this browser. */
async function readElsewhere(error: unknown): Promise<SignedIn> {
  if (!(error instanceof RequestError) || error.status !== 401) throw error;
  const session = await request<SignedIn>('GET', '/dashboard/session', { anyOrganization: true });
  chooseOrganization(null);
  if (queryClient.getQueryData(sessionKey) === undefined) return session;
  // What is on the page is of the other one.
  window.location.assign('/dashboard/');
  return new Promise(() => {});
}

interface ReadOptions {
  enabled?: boolean;
  refetchInterval?: number | false;
  staleTime?: number;
}

/** Reads a path of the API; the path is also the name under which it is cached. */
export function useRead<Answer>(path: string, options: ReadOptions = {}): UseQueryResult<Answer, Error> {
  return useQuery<Answer, Error>({ queryKey: [path], queryFn: ({ signal }) => get<Answer>(path, signal), ...options });
}

/** Everything that was read below these paths is read again. */
export async function forget(...prefixes: string[]): Promise<void> {
  await queryClient.invalidateQueries({
    predicate: ({ queryKey }) => prefixes.some((prefix) => String(queryKey[0]).startsWith(prefix)),
  });
}

export function useSignedIn(): SignedIn {
  const { data } = useSession();
  if (data === undefined) throw new Error('Sign in to see this page.');
  return data;
}

export function useMay(scope: string): boolean {
  return useSignedIn().scopes.includes(scope);
}

/** A list with all of its pages: for what is chosen from or counted, and for what nobody has more than a few pages of. */
export function useAll<Item>(path: string, options: ReadOptions = {}): UseQueryResult<Item[], Error> {
  return useQuery<Item[], Error>({ queryKey: [path, 'all'], queryFn: ({ signal }) => readAll<Item>(path, signal), ...options });
}

async function readAll<Item>(path: string, signal: AbortSignal): Promise<Item[]> {
  const items: Item[] = [];
  for (let after = ''; ; ) {
    const page = await get<List<Item>>(`${path}?limit=200${after}`, signal);
    items.push(...page.data);
    if (page.next_cursor === null) return items;
    after = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}

export function useAgents(options: ReadOptions = {}): UseQueryResult<Agent[], Error> {
  return useAll<Agent>('/api/agents', options);
}

export function useGo(): (path: string) => void {
  const [, go] = useLocation();
  return go;
}
