import { ConnectionError, ParleyClient, ParleyError } from '../../client/src/index.ts';
import { Chat } from './chat.ts';
import { remembered, type StorageKind } from './remembered.ts';

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

/** The chat that the element's attributes describe; undefined while no token can be had. */
export function connect(connection: Connection, changed: () => void): Chat | undefined {
  const { org, agent, endUser, storage = 'local' } = connection;
  const sessionToken = tokenSource(connection);
  if (sessionToken === undefined) return undefined;
  // The script is served by Parley itself, so where it came from is where the agents are.
  const baseUrl = new URL(connection.baseUrl ?? '/', connection.baseUrl === undefined ? import.meta.url : document.baseURI).href;
  const client = new ParleyClient({ baseUrl, sessionToken, agent: `${org}/${agent}` });
  const key = `parley-chat ${baseUrl} ${org}/${agent} ${endUser ?? ''}`;
  // What is half written is of this tab alone.
  const draft = remembered(storage === 'none' ? 'none' : 'session', `${key} draft`);
  return new Chat(client.managed, remembered(storage, key), draft, endUser === undefined ? {} : { end_user_id: endUser }, changed);
}

function tokenSource({ token, tokenUrl, tokenProvider }: Connection): string | TokenProvider | undefined {
  if (tokenProvider !== undefined) return tokenProvider;
  if (tokenUrl !== undefined) return () => fetchToken(tokenUrl);
  return token;
}

/** Your backend's own route: it knows who is signed in, mints a token for them, and answers `{token}`. */
async function fetchToken(url: string): Promise<string> {
  const asked = fetch(url, { method: 'POST', credentials: 'same-origin', headers: { accept: 'application/json' } });
  const response = await asked.catch((cause) => {
    throw new ConnectionError(`${url} could not be reached`, { cause });
  });
  // Where nobody is signed in, it may be a page that asks them to.
  const body: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  if (typeof body !== 'object' || body === null || !('token' in body) || typeof body.token !== 'string')
    throw new ParleyError(`${url} gave no session token (${response.status})`);
  return body.token;
}
