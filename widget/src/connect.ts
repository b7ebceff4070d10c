import { ConnectionError, ParleyClient, ParleyError } from '../../client/src/index.ts';
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

/** Creates the chat that the element's attributes describe; undefined when none of them says where the token comes from. */
export function connect(connection: Connection, changed: () => void): Chat | undefined {
  const { org, agent, endUser, storage = 'local' } = connection;
  const sessionToken = tokenSource(connection);
  if (sessionToken === undefined) return undefined;
  // Parley serves this script, so by default the agents are at the script's own origin.
  const baseUrl = new URL(connection.baseUrl ?? '/', connection.baseUrl === undefined ? import.meta.url : document.baseURI).href;
  const client = new ParleyClient({ baseUrl, sessionToken, agent: `${org}/${agent}` });
  const key = `parley-chat ${baseUrl} ${org}/${agent} ${endUser ?? ''}`;
  const sessionId = storedText(storage, key);
  // Never in local storage, which tabs share: each tab has its own unsent text.
  const unsent = storedText(storage === 'none' ? 'none' : 'session', `${key} draft`);
  return new Chat(client.managed, sessionId, unsent, endUser === undefined ? {} : { end_user_id: endUser }, changed);
}

function tokenSource({ token, tokenUrl, tokenProvider }: Connection): string | TokenProvider | undefined {
  if (tokenProvider !== undefined) return tokenProvider;
  if (tokenUrl !== undefined) return () => fetchToken(tokenUrl);
  return token;
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
