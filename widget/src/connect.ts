import { ConnectionError, ParleyClient, ParleyError } from '../../client/src/index.ts';
import { claimsOf } from '../../client/src/token-claims.ts';
import { Chat } from './chat.ts';
import { type StorageKind, storedText } from './stored-text.ts';

export type TokenProvider = () => string | Promise<string>;

export interface Connection {
  baseUrl: string | undefined;
  org: string | undefined;
  agent: string | undefined;
  token: string | undefined;
  tokenUrl: string | undefined;
  tokenProvider: TokenProvider | undefined;
  endUser: string | undefined;
  storage: StorageKind | undefined;
}

/** The person who uses the chat. */
export interface Visitor {
  /** Who it is, if a token has said so. */
  subject?: string | undefined;
  hasLeft?: boolean;
}

/**
 * Creates the chat that the element's attributes describe; undefined when none of them says where the token comes from. With the
 * first token that is for somebody else, what is stored of this visitor is forgotten, and `welcome` gets the next one.
 */
export function connect(connection: Connection, visitor: Visitor, changed: () => void, welcome: (next: Visitor) => void): Chat | undefined {
  const { org, agent, endUser, storage = 'local' } = connection;
  // Parley serves this script, so by default the agents are at the script's own origin.
  const baseUrl = new URL(connection.baseUrl ?? '/', connection.baseUrl === undefined ? import.meta.url : document.baseURI).href;
  const key = `parley-chat ${baseUrl} ${org}/${agent} ${endUser ?? ''}`;
  const sessionId = storedText(storage, key);
  // Never in local storage, which tabs share: each tab has its own unsent text.
  const unsent = storedText(storage === 'none' ? 'none' : 'session', `${key} draft`);
  const isTheirs = (token: string) => {
    const claims = claimsOf(token);
    if (visitor.hasLeft || claims === undefined) return !visitor.hasLeft;
    const subject = typeof claims.sub === 'string' ? claims.sub : undefined;
    // Whoever had no name before has only signed in.
    const isSame = visitor.subject === undefined || visitor.subject === subject;
    visitor.subject = subject;
    if (isSame) return true;
    sessionId.forget();
    unsent.forget();
    welcome({ subject });
    return false;
  };
  const sessionToken = tokenSource(connection, isTheirs);
  if (sessionToken === undefined) return undefined;
  const client = new ParleyClient({ baseUrl, sessionToken, agent: `${org}/${agent}` });
  return new Chat(client.managed, sessionId, unsent, endUser === undefined ? {} : { end_user_id: endUser }, changed);
}

function tokenSource(
  { token, tokenUrl, tokenProvider }: Connection,
  isTheirs: (token: string) => boolean,
): string | TokenProvider | undefined {
  const ask = tokenProvider ?? (tokenUrl === undefined ? undefined : () => fetchToken(tokenUrl));
  if (ask === undefined) {
    // Its chat is a new one anyway.
    if (token !== undefined) isTheirs(token);
    return token;
  }
  return async () => {
    const next = await ask();
    if (next && !isTheirs(next)) throw new ParleyError('The token is for another end user');
    return next;
  };
}

/** Without a limit, a request that the network has lost would hold up every other one: they all wait for the same token. */
const tokenTimeoutMs = 30_000;

/** Asks the customer's backend, which knows who is signed in, mints a session token for them and answers `{token}`. */
async function fetchToken(url: string): Promise<string> {
  const signal = AbortSignal.timeout(tokenTimeoutMs);
  const unreachable = (cause: unknown): never => {
    throw new ConnectionError(`${url} could not be reached`, { cause });
  };
  const asked = fetch(url, { method: 'POST', credentials: 'same-origin', headers: { accept: 'application/json' }, signal });
  const response = await asked.catch(unreachable);
  // The body may not be JSON: a backend may answer with its sign-in page when nobody is signed in. Any other error is of the connection.
  const notJson = (error: unknown) => (error instanceof SyntaxError ? undefined : unreachable(error));
  const body: unknown = response.ok ? await response.json().catch(notJson) : undefined;
  if (typeof body !== 'object' || body === null || !('token' in body) || typeof body.token !== 'string')
    throw new ParleyError(`${url} gave no session token (${response.status})`);
  return body.token;
}
