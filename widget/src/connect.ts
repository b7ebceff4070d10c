import { ConnectionError, ParleyClient, ParleyError } from '../../client/src/index.ts';
import { claimsOf } from '../../client/src/token-claims.ts';
import { Chat } from './chat.ts';
import { abandonSending, type Page, Sending, sendingOf } from './sending.ts';
import { type StorageKind, type StoredText, storedText } from './stored-text.ts';

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
  /** Where their tokens come from now. */
  source?: unknown;
  /** How often they were asked for, and when the one was that has last said who it is. */
  asked?: number;
  heard?: number;
  /** The one that has said that they are here, until it is used. */
  token?: string | undefined;
  /** The last one that they have used here. */
  chat?: Chat | undefined;
}

/**
 * Creates the chat that the element's attributes describe; undefined when none of them says where the token comes from. With the
 * first token that is for somebody else, what is stored of this visitor is forgotten, and `welcome` gets the next one.
 */
export function connect(connection: Connection, visitor: Visitor, page: Page, welcome: (next: Visitor) => void): Chat | undefined {
  const { org, agent, endUser, tokenUrl, tokenProvider, storage = 'local' } = connection;
  // Parley serves this script, so by default the agents are at the script's own origin.
  const baseUrl = new URL(connection.baseUrl ?? '/', connection.baseUrl === undefined ? import.meta.url : document.baseURI).href;
  const key = `parley-chat ${baseUrl} ${org}/${agent} ${endUser ?? ''}`;
  const sessionId = storedText(storage, key);
  // Never in local storage, which tabs share: each tab has its own unsent text.
  const unsent = storedText(storage === 'none' ? 'none' : 'session', `${key} draft`);
  const source = tokenProvider ?? tokenUrl;
  // Asked again at once, a source that names somebody else each time would be asked without end.
  const known = visitor.source === source ? visitor.token : undefined;
  if (visitor.source !== source) visitor.heard = 0;
  visitor.source = source;
  visitor.token = undefined;
  /**
   * Who is here with the token: this visitor, or another one, who goes on. A late one does not say: one of a source that was replaced,
   * or that was asked for before the one that has said it.
   */
  const recognize = (token: string, asked = 0): Visitor | undefined => {
    if (visitor.hasLeft) return undefined;
    const claims = claimsOf(token);
    if (claims === undefined) return visitor;
    const subject = typeof claims.sub === 'string' ? claims.sub : undefined;
    const isLate = visitor.source !== source || asked < (visitor.heard ?? 0);
    if (!isLate) {
      visitor.heard = asked;
      // Whoever had no name before has only signed in.
      visitor.subject ??= subject;
    }
    if (visitor.subject === subject) return visitor;
    if (isLate) return undefined;
    // Until it is loaded, it may be a conversation that the next one has begun in another tab.
    if (visitor.chat?.state !== 'loading') visitor.chat?.forget();
    unsent.forget();
    abandonSending(key);
    const next = { subject, source, token };
    welcome(next);
    return next;
  };
  const ask = tokenProvider ?? (tokenUrl === undefined ? undefined : () => fetchToken(tokenUrl));
  const sessionToken = ask === undefined ? connection.token : tokenSource(ask, known, visitor, recognize);
  const bearer = typeof sessionToken === 'string' ? recognize(sessionToken) : visitor;
  if (sessionToken === undefined || bearer === undefined) return undefined;
  const client = new ParleyClient({ baseUrl, sessionToken, agent: `${org}/${agent}` });
  const metadata = endUser === undefined ? {} : { end_user_id: endUser };
  const sending = storage === 'none' ? new Sending(key) : sendingOf(key);
  const takeBack: Page['takeBack'] = (...message) => {
    if (!bearer.hasLeft) page.takeBack(...message);
  };
  const here = { ...page, takeBack };
  bearer.chat = new Chat(client.managed, whileHere(bearer, sessionId), whileHere(bearer, unsent), sending, metadata, here);
  return bearer.chat;
}

/** A request of a visitor may end when they have left. What is stored is the next one's then. */
function whileHere(visitor: Visitor, stored: StoredText): StoredText {
  return {
    read: () => (visitor.hasLeft ? undefined : stored.read()),
    write: (text) => {
      if (!visitor.hasLeft) stored.write(text);
    },
    forget: () => {
      if (!visitor.hasLeft) stored.forget();
    },
  };
}

/** Gives the tokens of this visitor only. */
function tokenSource(
  ask: TokenProvider,
  known: string | undefined,
  visitor: Visitor,
  recognize: (token: string, asked: number) => Visitor | undefined,
): TokenProvider {
  const askNow = async () => {
    visitor.asked = (visitor.asked ?? 0) + 1;
    const asked = visitor.asked;
    const token = await ask();
    if (token && recognize(token, asked) !== visitor) throw new ParleyError('The token came too late, or is for another end user');
    return token;
  };
  // Another source, or the element back on the page, may be there because somebody else is. That has to be known before they write, and
  // not only when they have sent it.
  let first: string | Promise<string> | undefined = known;
  if (first === undefined && visitor.subject !== undefined) {
    first = askNow();
    first.catch(() => {
      first = undefined;
    });
  }
  return () => {
    const token = first ?? askNow();
    first = undefined;
    return token;
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
  const refusal = `${url} gave no session token (${response.status})`;
  // The backend, or a proxy before it, restarts or has too much to do: it can be asked again, as if it had not been reached.
  if (response.status === 429 || response.status >= 500) throw new ConnectionError(refusal);
  // The body may not be JSON: a backend may answer with its sign-in page when nobody is signed in. Any other error is of the connection.
  const notJson = (error: unknown) => (error instanceof SyntaxError ? undefined : unreachable(error));
  const body: unknown = response.ok ? await response.json().catch(notJson) : undefined;
  if (typeof body !== 'object' || body === null || !('token' in body) || typeof body.token !== 'string') throw new ParleyError(refusal);
  return body.token;
}
