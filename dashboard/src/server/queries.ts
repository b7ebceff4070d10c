import { MutationCache, notifyManager, QueryCache, QueryClient, type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { leaveForGood } from '../parts/leave-for-good.ts';
import { useWhileShown } from '../parts/while-shown.ts';
import { chooseOrganization, get, RequestError, request, setOrganization, tabOrganization } from './request.ts';
import type { Agent, List, SignedIn } from './types.ts';

const sessionKey = ['/dashboard/session'];

// By default components learn a task later that their mutation has started. Until then a button is not disabled, and the
// second click of a double click would send the request again.
notifyManager.setScheduler(queueMicrotask);

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeLostAccess }),
  mutationCache: new MutationCache({ onError: noticeLostAccess }),
  defaultOptions: {
    // By default requests wait silently while the browser is offline, and an approval would be sent much later, when it is back.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5_000,
      retry: shouldRetry,
      retryDelay: (count, error) => (error instanceof RequestError && error.waitMs) || Math.min(1_000 * 2 ** count, 8_000),
      refetchOnWindowFocus: true,
      refetchInterval: ({ state: { error } }) => intervalAfter(error),
    },
  },
});

/** What is not read at an interval anyway is read again after a failure of the server, or too many requests, so that the page recovers by itself. */
export function intervalAfter(error: Error | null): number | false {
  if (!(error instanceof RequestError)) return false;
  return error.status >= 500 || error.status === 429 ? Math.max(5_000, error.waitMs ?? 0) : false;
}

/** An unreachable server is retried without end, an overloaded one a few times. Other refusals would only be repeated. */
function shouldRetry(count: number, error: Error): boolean {
  if (!(error instanceof RequestError)) return false;
  return error.status === 0 || (count < 5 && (error.isTemporary || error.status === 429));
}

/**
 * A 401 may be the first sign that the login has ended, and a 403 that the person's role has changed. Reading the session again
 * makes the page ask for the password, or show what they still may do.
 */
function noticeLostAccess(error: Error): void {
  const isRefused = error instanceof RequestError && (error.status === 401 || error.status === 403);
  if (isRefused && isSignedIn()) void queryClient.invalidateQueries({ queryKey: sessionKey });
}

/** According to the last response of the server. */
function isSignedIn(): boolean {
  return queryClient.getQueryState(sessionKey)?.status === 'success';
}

/** Resolves when this person has signed in again, or the signal is aborted. */
export async function untilSignedIn(signal: AbortSignal): Promise<void> {
  while (!signal.aborted && !isSignedIn()) await new Promise((resolve) => setTimeout(resolve, 300));
}

/** Asks the server whether this person is still signed in. */
export async function checkSignedIn(): Promise<boolean> {
  await queryClient.invalidateQueries({ queryKey: sessionKey });
  return isSignedIn();
}

export function useSession(): UseQueryResult<SignedIn, Error> {
  // Whoever comes back to this tab may have signed in in another one a moment ago.
  return useQuery<SignedIn>({ queryKey: sessionKey, queryFn: readSession, staleTime: 60_000, refetchOnWindowFocus: 'always' });
}

async function readSession(): Promise<SignedIn> {
  const session = await get<SignedIn>('/dashboard/session').catch(readFromAnyOrganization);
  const known = queryClient.getQueryData<SignedIn>(sessionKey);
  // What somebody else has read and written here is not theirs to see, or to send.
  if (known !== undefined && known.user.id !== session.user.id) return leaveForGood('/dashboard/');
  setOrganization(session.organization.slug);
  return session;
}

/**
 * After a 401: this person may be signed in, but not belong (any more) to the org that was last chosen in this browser. Or the request
 * still had a login that has ended since, as one beside a change of the password has.
 */
async function readFromAnyOrganization(error: unknown): Promise<SignedIn> {
  if (!(error instanceof RequestError) || error.status !== 401) throw error;
  const session = await request<SignedIn>('GET', '/dashboard/session', { anyOrganization: true });
  if (session.organizations.some(({ slug }) => slug === tabOrganization())) return get<SignedIn>('/dashboard/session');
  chooseOrganization(null);
  if (queryClient.getQueryData(sessionKey) === undefined) return session;
  // The page shows data of the former org.
  return leaveForGood('/dashboard/');
}

interface ReadOptions {
  enabled?: boolean;
  refetchInterval?: number | false;
  staleTime?: number;
}

/**
 * Reads a path of the API. The path is also the cache key. What does not exist is not asked for again at the interval; what could not be
 * read is, and sooner where the interval is long.
 */
export function useRead<Answer>(path: string, { refetchInterval, ...options }: ReadOptions = {}): UseQueryResult<Answer, Error> {
  const interval = (error: Error | null) => {
    if (error instanceof RequestError && error.status === 404) return false;
    return refetchInterval && Math.min(refetchInterval, intervalAfter(error) || refetchInterval);
  };
  return useQuery<Answer, Error>({
    queryKey: [path],
    queryFn: ({ signal }) => get<Answer>(path, signal),
    ...options,
    ...(refetchInterval === undefined ? {} : { refetchInterval: ({ state: { error } }) => interval(error) }),
  });
}

/** Marks everything read under these paths as stale; what is on the page is read again at once. */
export async function refresh(...prefixes: string[]): Promise<void> {
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

/** All pages of a list: for choosing from it or counting it, and for lists that are never long. */
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

export function useNavigate(): (path: string) => void {
  const [, navigate] = useLocation();
  return useWhileShown(navigate);
}
