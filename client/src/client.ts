import { agentPath } from './agent-path.ts';
import { Managed } from './managed.ts';
import { Inputs, Messages, Sessions } from './native.ts';
import type { Routes } from './openapi.ts';
import type { ClientOptions, RequestOptions } from './options.ts';
import { type RouteArguments, routeRequest } from './route-request.ts';
import { Transport } from './transport.ts';
import type { MintSessionToken, SessionToken } from './types.ts';

/** A client of a Parley server. It keeps no connection open: it is cheap to create, may be shared, and needs no closing. */
export class ParleyClient {
  readonly sessions: Sessions;
  readonly messages: Messages;
  readonly inputs: Inputs;
  readonly #options: ClientOptions;
  readonly #transport: Transport;

  constructor(options: ClientOptions, transport: Transport = new Transport(options)) {
    this.#options = options;
    this.#transport = transport;
    this.sessions = new Sessions(transport, options.agent);
    this.messages = new Messages(transport, options.agent);
    this.inputs = new Inputs(transport, options.agent);
  }

  /** Event-sourced sessions of the client's agent. Throws if the client has no `agent`. */
  get managed(): Managed {
    const { agent } = this.#options;
    if (agent === undefined) throw new TypeError("Managed sessions belong to an agent: client.agent('org/agent').managed");
    return new Managed(this.#transport, agentPath(agent));
  }

  /** A client with the same options and credential whose calls go to this agent (`org/agent`). */
  agent(agent: string): ParleyClient {
    return new ParleyClient({ ...this.#options, agent }, this.#transport);
  }

  /** For backends: a token for one end user's browser, valid for the client's agent only. Needs the scope `session_tokens:mint`. */
  mintSessionToken(token: MintSessionToken = {}, options: RequestOptions = {}): Promise<SessionToken> {
    const slug = this.#options.agent?.split('/')[1];
    if (slug === undefined) throw new TypeError("A token belongs to an agent: client.agent('org/agent').mintSessionToken()");
    const path = `/api/agents/${encodeURIComponent(slug)}/session_tokens`;
    return this.#transport.json('POST', path, { ...options, body: token, harmless: true });
  }

  /** Any call of the HTTP API, typed from its OpenAPI document: `request('GET /api/agents/{slug}', { path: { slug: 'support' } })`. */
  request<Name extends keyof Routes>(route: Name, ...[call]: RouteArguments<Name>): Promise<Routes[Name]['answer']> {
    return this.#transport.json(...routeRequest(route, call));
  }
}
