// Generated from the OpenAPI document of the server: npm run generate

export interface Schemas {
  AcceptInvitation: {
    token: string;
    name: string;
    password: string;
    email?: string;
  };
  Accepted: {
    accepted: true;
  };
  AdapterError: {
    detail: string | {
      error: string;
      message: string;
    } & { [name: string]: unknown };
    error: {
      message: string;
      type: string;
      code: string;
      param: string | null;
    };
  };
  Agent: {
    id: number;
    slug: string;
    name: string;
    description: string;
    /** Whether it is the organization's default agent, which the flat routes use. */
    default: boolean;
    /** The release that new sessions use. */
    active_version: number | null;
    /** State of that release; until it is `materialized`, new sessions and turns get 409. */
    active_state: 'pending' | 'materializing' | 'materialized' | 'failed' | null;
    created_at: string;
    updated_at: string;
  };
  ApiKey: {
    id: number;
    name: string;
    /** The beginning of the key, which identifies it in audit events. */
    prefix: string;
    scopes: (string)[];
    created_at: string;
    last_used_at: string | null;
    revoked_at: string | null;
  };
  AuditEvent: {
    created_at: string;
    action: string;
    actor_email: string | null;
    api_key_prefix: string | null;
    subject_type: string;
    subject_id: string;
    ip_address: string | null;
    user_agent: string | null;
    metadata: { [name: string]: unknown };
  };
  Budget: {
    state: 'ok' | 'exhausted';
    /** Why the next turn would be refused. */
    reason: string | null;
    /** Of the cap that is closest to being reached. */
    percent_used: number;
    /** Prepaid credits, set by the operator; null means unlimited. */
    credits_micros: number | null;
    credits_remaining_micros: number | null;
    total_tokens_cap: number | null;
    tokens_used: number;
    instance_spend_cap_micros: number | null;
    spent_micros: number;
    /** Held by running turns. */
    reserved_tokens: number;
    reserved_micros: number;
    /** Of the files in all workspaces. */
    file_bytes: number;
    updated_at: string;
  };
  ChatCompletion: {
    id: string;
    object: 'chat.completion';
    created: number;
    model: string;
    choices: ({
      index: number;
      message: {
        role: 'assistant';
        content: string;
      };
      finish_reason: string;
    })[];
    usage: {
      prompt_tokens: number;
      completion_tokens: number;
      total_tokens: number;
      /** Present when the provider read some of the prompt from its cache. */
      prompt_tokens_details?: {
        cached_tokens: number;
      };
    };
  };
  ChatCompletionRequest: {
    /** The last user message is run; in a new session the messages before it are context. */
    messages?: ({
      role: 'user' | 'assistant' | 'system' | 'developer' | 'tool' | 'function';
      content?: string | ({
        type: string;
        text?: string;
        refusal?: string;
      })[] | null;
    })[];
    /** Echoed; does not select the model. */
    model?: string | null;
    stream?: boolean | null;
    /** With `include_usage: false` the stream has no chunk with the usage. */
    stream_options?: unknown;
    /** false deletes a session created by this call after the turn. */
    store?: boolean | null;
    /** Metadata of a new session; `session_id` continues an existing session, `end_user_id` is the acting user. */
    metadata?: { [name: string]: unknown } | null;
  };
  CreateAgent: {
    /** Part of the agent’s URL: 1 to 63 of a-z 0-9 _ -. */
    slug: string;
    name?: string;
    description?: string;
    default?: boolean;
  };
  CreateApiKey: {
    name: string;
    /** Only scopes that the calling key has. */
    scopes: (string)[];
  };
  CreateInvitation: {
    email: string;
    role?: 'owner' | 'admin' | 'member';
  };
  CreateManagedSession: {
    /** Key/value pairs of the client; at most 50 keys and 16 KiB. */
    metadata?: { [name: string]: unknown };
    /** Warm the session in the background. */
    prewarm?: boolean;
    /** How often turns ask for approval; null uses the release's mode. Ignored with a session token. */
    permission_mode?: 'interactive' | 'autonomous' | 'locked' | null;
  };
  CreateRelease: {
    /** System prompt of the main sub-agent. */
    instructions?: string;
    model?: Schemas['Model'];
    /** The sub-agent with which new sessions start. */
    main?: string;
    /** By default there is one sub-agent, "main". */
    agents?: (Schemas['SubAgent'])[];
    /** Built-in tools of every sub-agent that names none; all of them if absent. */
    tools?: ('bash' | 'files' | 'fetch')[];
    mcp_servers?: (Schemas['McpServer'])[];
    permissions?: {
      mode?: 'interactive' | 'autonomous' | 'locked';
      /** The last rule that matches wins. */
      rules?: (Schemas['PermissionRule'])[];
    };
    /** What shares an instance, that is, files and a spending cap. */
    instance?: {
      scope?: 'session' | 'end_user' | 'shared';
    };
    limits?: {
      max_steps?: number;
      turn_timeout_s?: number;
    };
    /** What happens when the conversation nears the model's context limit. */
    context?: {
      limit_tokens?: number | null;
      overflow?: 'drop' | 'summarize';
    };
    /** Activate it in the same call. */
    activate?: boolean;
  };
  CreateSession: {
    /** Key/value pairs of the client; at most 50 keys and 16 KiB. */
    metadata?: { [name: string]: unknown };
    /** Resumes the session with this id, or creates one with it. */
    session_id?: string;
    /** How often turns ask for approval; null uses the release's mode. */
    permission_mode?: 'interactive' | 'autonomous' | 'locked' | null;
  };
  CreateWebhookEndpoint: {
    name: string;
    /** An HTTPS URL on the public internet; checked again before every attempt. */
    url: string;
    /** Subscribed event types; an empty list means all of them. */
    event_types?: (string)[];
  };
  DeletedResponse: {
    id: string;
    object: 'response';
    deleted: true;
  };
  Error: {
    detail: string | {
      error: string;
      message: string;
    } & { [name: string]: unknown };
  };
  FlatError: {
    error: string;
    message: string;
    reason?: string;
  };
  InputItemList: {
    object: 'list';
    data: (unknown)[];
    first_id: string | null;
    last_id: string | null;
    has_more: boolean;
  };
  Invitation: {
    id: number;
    email: string | null;
    role: 'owner' | 'admin' | 'member';
    created_at: string;
    expires_at: string;
  };
  JsonWebKeySet: {
    keys: ({ [name: string]: unknown })[];
  };
  ManagedSession: {
    id: string;
    object: 'session';
    status: 'idle' | 'running';
  };
  ManagedSessionList: {
    object: 'list';
    data: (Schemas['ManagedSession'])[];
  };
  ManagedSessionState: {
    id: string;
    object: 'session';
    status: 'idle' | 'running';
    events: ({
      seq: number;
      type: string;
    } & { [name: string]: unknown })[];
  };
  ManagedTranscript: {
    session_id: string;
    messages: ({
      role: string;
      text: string;
    })[];
  };
  McpRequest: {
    /** tools/list, tools/call, resources/list, resources/read, prompts/list or prompts/get */
    method: string;
    /** `server` names the server if the release has several. */
    params?: { [name: string]: unknown };
  };
  McpServer: {
    /** Its tools are named <server>__<tool>. */
    name: string;
    url: string;
    /** A stored credential, sent as a bearer token. */
    credential?: string | null;
  };
  Member: {
    id: string;
    email: string;
    name: string;
    role: 'owner' | 'admin' | 'member';
    created_at: string;
  };
  Message: {
    text: string;
    session_id: string;
    agent: string;
    messages: ({
      id: string;
      role: string;
      text: string;
      parts: (unknown)[];
    })[];
    usage: {
      input_tokens: number;
      output_tokens: number;
      total_tokens: number;
    };
    pending_input?: {
      request_id: string;
      kind: string;
      tool: string;
      message: string;
      options: (string)[];
    };
    /** Set if the turn did not end normally: interrupted or max_steps. */
    stop_reason?: string;
  };
  MintSessionToken: {
    /** The verified end user; without it the token is anonymous. */
    end_user_id?: string;
    ttl_seconds?: number;
    /** The durable instance to use. */
    agent_instance_id?: string;
    /** Added to every session that the token creates; at most 2 KiB. */
    metadata?: { [name: string]: unknown };
    /** false: the end user cannot answer approvals; your backend or a member does. */
    may_approve?: boolean;
  };
  Model: {
    provider: 'offline' | 'openai' | 'anthropic' | 'google' | 'openai-compatible';
    /** Required for every provider except offline. */
    name?: string;
    /** Required for openai-compatible. */
    base_url?: string | null;
    /** temperature, max_output_tokens, top_p, stop, provider_options */
    settings?: { [name: string]: unknown };
  };
  ModelCredential: {
    /** A provider, or the name that an MCP server's `credential` refers to. */
    provider: string;
    /** The last four characters; empty if the key is shorter than 12. */
    last_four: string;
    updated_at: string;
  };
  ModelList: {
    object: 'list';
    data: ({
      id: string;
      object: 'model';
      created: number;
      owned_by: string;
    })[];
  };
  Organization: {
    id: number;
    slug: string;
    name: string;
    status: 'active' | 'suspended';
    /** Slug of the agent that the flat routes use. */
    default_agent: string | null;
    support_access: {
      transcripts: boolean;
    };
    /** Percentages of a budget at which a webhook event is sent. */
    alert_thresholds: (number)[];
    subscription: {
      plan: string;
      status: string;
    } | null;
    created_at: string;
    updated_at: string;
  };
  PermissionRule: {
    tool: string;
    /** A glob over the command, path, URL or sub-agent, or over the input of an MCP tool as JSON. */
    match?: string | null;
    action: 'allow' | 'ask' | 'deny';
  };
  PostEvent: {
    type: 'user.message' | 'user.tool_confirmation' | 'user.interrupt';
    /** Text of a user.message. */
    text?: string;
    tool_use_id?: string;
    /** The approval that a user.tool_confirmation answers. */
    request_id?: string;
    /** `allow` is an alias of `approve_once`. */
    result?: 'approve_once' | 'approve_session' | 'deny' | 'allow';
  };
  RecoverWebhookEndpoint: {
    /** ISO 8601 time, inclusive; in UTC unless it has an offset. */
    from: string;
    /** Likewise; default: now. */
    to?: string;
  };
  Release: {
    version: number;
    state: 'pending' | 'materializing' | 'materialized' | 'failed';
    active: boolean;
    /** Which step of materializing failed, and why. */
    error: string | null;
    created_at: string;
    /** The config with every default filled in. */
    config: { [name: string]: unknown };
    /** The MCP tools as they were when the release was materialized. */
    pinned_tools: ({
      server: string;
      name: string;
      description: string;
      read_only: boolean;
    })[];
  };
  Resolution: {
    events: (unknown)[];
    session: Schemas['Session'];
  };
  ResolveApproval: {
    decision: 'approve_once' | 'approve_session' | 'deny';
  };
  Response: {
    id: string;
    object: 'response';
    created_at: number;
    status: string;
    model: string;
    output: (unknown)[];
    output_text: string;
    usage: {
      input_tokens: number;
      output_tokens: number;
      total_tokens: number;
      input_tokens_details: {
        /** Read from the provider's cache. */
        cached_tokens: number;
      };
      output_tokens_details: {
        /** Always 0: not counted apart. */
        reasoning_tokens: number;
      };
    } | null;
    error: {
      code: string;
      message: string;
    } | null;
    incomplete_details: {
      reason: string;
    } | null;
    tools: (unknown)[];
    tool_choice: string;
    parallel_tool_calls: boolean;
    metadata: { [name: string]: unknown };
    previous_response_id?: string;
  };
  ResponseRequest: {
    input: string | ({
      type?: string;
      id?: string | null;
      role?: string;
      content?: string | ({
        type: string;
        text?: string;
        refusal?: string;
      })[] | null;
      approval_request_id?: string | null;
      approve?: boolean;
    })[];
    /** Echoed; does not select the model. */
    model?: string | null;
    stream?: boolean | null;
    /** Continues the session of this response. */
    previous_response_id?: string | null;
    /** Continues the session with this id. */
    conversation?: string | {
      id: string;
    } | null;
    /** false deletes a session created by this call after the turn. */
    store?: boolean | null;
    /** A string is context for the model, in addition to the release's instructions. */
    instructions?: unknown;
    metadata?: { [name: string]: unknown } | null;
  };
  SendMessage: {
    text: string;
    /** Routes the turn to a named sub-agent. */
    agent?: string;
    participant_name?: string;
    participant_type?: 'human' | 'ai';
    thinking?: boolean;
    stream?: boolean;
  };
  Session: {
    id: string;
    metadata: { [name: string]: unknown };
    current_agent: string;
    status: string;
    created_at: string;
    updated_at: string;
    parent_id: string | null;
    pending_input: {
      request_id: string;
      kind: string;
      tool: string;
      message: string;
      options: (string)[];
    } | null;
    permission_mode: string | null;
    participants: (unknown)[];
    agent?: {
      ref: string;
      agent_id: number;
      version: number;
    };
  };
  SessionList: {
    agent: {
      ref: string;
      agent_id: number;
    };
    page: number;
    per_page: number;
    total: number;
    sessions: ({
      id: string;
      status: string;
      message_count: number;
      last_message_at: string | null;
      end_user_id: string | null;
    })[];
  };
  SessionToken: {
    token: string;
    expires_at: string;
  };
  StageUpload: {
    /** The original file name; its basename is kept. */
    name: string;
    /** At most 10 MiB once decoded. */
    content_base64: string;
  };
  StoreModelCredential: {
    /** Printable ASCII, because it is sent in a header. */
    api_key: string;
  };
  SubAgent: {
    name: string;
    instructions?: string;
    /** null is the same as absent. */
    model?: Schemas['Model'] | null;
    /** null is the same as absent. */
    tools?: ('bash' | 'files' | 'fetch')[] | null;
  };
  TestWebhookEndpoint: {
    /** Default: the first type that the endpoint is subscribed to. */
    event_type?: string;
  };
  Transcript: {
    session: {
      id: string;
      status: string;
    };
    messages: ({
      role: string;
      text: string;
    })[];
  };
  UpdateAgent: {
    name?: string;
    description?: string;
    default?: boolean;
  };
  UpdateBudget: {
    total_tokens_cap?: number | null;
    instance_spend_cap_micros?: number | null;
  };
  UpdateInvitation: {
    role: 'owner' | 'admin' | 'member';
  };
  UpdateMember: {
    role: 'owner' | 'admin' | 'member';
  };
  UpdateOrganization: {
    name?: string;
    support_access?: {
      transcripts: boolean;
    };
    default_agent?: string | null;
    alert_thresholds?: (number)[];
  };
  UpdateWebhookEndpoint: {
    name?: string;
    /** An HTTPS URL on the public internet; checked again before every attempt. */
    url?: string;
    /** Subscribed event types; an empty list means all of them. */
    event_types?: (string)[];
  };
  Uploaded: {
    accepted: true;
    path: string;
  };
  Usage: {
    /** In UTC. */
    day?: string;
    agent?: string | null;
    /** Tells a deleted agent from the one that has its slug now. */
    agent_id?: number;
    /** provider/name */
    model?: string;
    end_user_id?: string | null;
    turns: number;
    input_tokens: number;
    output_tokens: number;
    total_tokens: number;
    cached_tokens: number;
    cost_micros: number;
  };
  Warming: {
    status: 'warming';
  };
  WebhookDelivery: {
    /** Same as the payload's `id` and the header `Svc-Event-Id`. */
    id: string;
    endpoint_id: number;
    event_type: string;
    test: boolean;
    state: 'pending' | 'delivered' | 'failed';
    payload: unknown;
    next_attempt_at: string | null;
    created_at: string;
    delivered_at: string | null;
    attempts: ({
      number: number;
      /** A test or resend, outside the retry schedule. */
      manual: boolean;
      started_at: string;
      duration_ms: number;
      /** HTTP status; null if there was no response. */
      status: number | null;
      error: string | null;
      response_excerpt: string;
    })[];
  };
  WebhookEndpoint: {
    id: number;
    name: string;
    url: string;
    event_types: (string)[];
    enabled: boolean;
    disabled_reason: string | null;
    /** Counted failures since the last success. */
    consecutive_failures: number;
    previous_secret_expires_at: string | null;
    created_at: string;
    updated_at: string;
  };
}

export interface Routes {
  /** Create or resume a session */
  'POST /v1/sessions': {
    path: {};
    query: {};
    body: Schemas['CreateSession'] | null;
    answer: Schemas['Session'];
  };
  /** Fetch a session */
  'GET /v1/sessions/{session_id}': {
    path: {
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['Session'];
  };
  /** Send a message */
  'POST /v1/sessions/{session_id}/messages': {
    path: {
      session_id: string;
    };
    query: {};
    body: Schemas['SendMessage'];
    answer: Schemas['Message'];
  };
  /** Resolve an approval */
  'PUT /v1/sessions/{session_id}/inputs/{request_id}': {
    path: {
      session_id: string;
      request_id: string;
    };
    query: {};
    body: Schemas['ResolveApproval'];
    answer: Schemas['Resolution'];
  };
  /** Create or resume a session */
  'POST /{org}/{agent}/v1/sessions': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: Schemas['CreateSession'] | null;
    answer: Schemas['Session'];
  };
  /** List sessions */
  'GET /{org}/{agent}/v1/sessions': {
    path: {
      org: string;
      agent: string;
    };
    query: {
      /** Only sessions that were active in the last 15 minutes. */
      active?: boolean;
      /** Counted from 1. */
      page?: number;
      /** Page size, clamped to 1..200. */
      per_page?: number;
    };
    body: undefined;
    answer: Schemas['SessionList'];
  };
  /** Fetch a session */
  'GET /{org}/{agent}/v1/sessions/{session_id}': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['Session'];
  };
  /** Stop a session */
  'DELETE /{org}/{agent}/v1/sessions/{session_id}': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Send a message */
  'POST /{org}/{agent}/v1/sessions/{session_id}/messages': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: Schemas['SendMessage'];
    answer: Schemas['Message'];
  };
  /** Read the transcript */
  'GET /{org}/{agent}/v1/sessions/{session_id}/messages': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['Transcript'];
  };
  /** Resolve an approval */
  'PUT /{org}/{agent}/v1/sessions/{session_id}/inputs/{request_id}': {
    path: {
      org: string;
      agent: string;
      session_id: string;
      request_id: string;
    };
    query: {};
    body: Schemas['ResolveApproval'];
    answer: Schemas['Resolution'];
  };
  /** List agents */
  'GET /api/agents': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['Agent'])[];
      next_cursor: string | null;
    };
  };
  /** Create an agent */
  'POST /api/agents': {
    path: {};
    query: {};
    body: Schemas['CreateAgent'];
    answer: {
      agent: Schemas['Agent'];
    };
  };
  /** Fetch an agent */
  'GET /api/agents/{slug}': {
    path: {
      slug: string;
    };
    query: {};
    body: undefined;
    answer: {
      agent: Schemas['Agent'];
    };
  };
  /** Change an agent */
  'PATCH /api/agents/{slug}': {
    path: {
      slug: string;
    };
    query: {};
    body: Schemas['UpdateAgent'];
    answer: {
      agent: Schemas['Agent'];
    };
  };
  /** Delete an agent */
  'DELETE /api/agents/{slug}': {
    path: {
      slug: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** List releases */
  'GET /api/agents/{slug}/releases': {
    path: {
      slug: string;
    };
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['Release'])[];
      next_cursor: string | null;
    };
  };
  /** Create a release */
  'POST /api/agents/{slug}/releases': {
    path: {
      slug: string;
    };
    query: {};
    body: Schemas['CreateRelease'];
    answer: {
      release: Schemas['Release'];
    };
  };
  /** Fetch a release */
  'GET /api/agents/{slug}/releases/{version}': {
    path: {
      slug: string;
      version: string;
    };
    query: {};
    body: undefined;
    answer: {
      release: Schemas['Release'];
    };
  };
  /** Activate a release */
  'POST /api/agents/{slug}/releases/{version}/activate': {
    path: {
      slug: string;
      version: string;
    };
    query: {};
    body: undefined;
    answer: {
      release: Schemas['Release'];
    };
  };
  /** Mint a session token */
  'POST /api/agents/{slug}/session_tokens': {
    path: {
      slug: string;
    };
    query: {};
    body: Schemas['MintSessionToken'] | null;
    answer: Schemas['SessionToken'];
  };
  /** Public keys of session tokens */
  'GET /.well-known/jwks.json': {
    path: {};
    query: {};
    body: undefined;
    answer: Schemas['JsonWebKeySet'];
  };
  /** List API keys */
  'GET /api/api_keys': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['ApiKey'])[];
      next_cursor: string | null;
    };
  };
  /** Create an API key */
  'POST /api/api_keys': {
    path: {};
    query: {};
    body: Schemas['CreateApiKey'];
    answer: {
      api_key: Schemas['ApiKey'];
      secret: string;
    };
  };
  /** Revoke an API key */
  'DELETE /api/api_keys/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Fetch the organization */
  'GET /api/organization': {
    path: {};
    query: {};
    body: undefined;
    answer: {
      organization: Schemas['Organization'];
    };
  };
  /** Change the organization */
  'PATCH /api/organization': {
    path: {};
    query: {};
    body: Schemas['UpdateOrganization'];
    answer: {
      organization: Schemas['Organization'];
    };
  };
  /** Fetch the budget */
  'GET /api/budget': {
    path: {};
    query: {};
    body: undefined;
    answer: {
      budget: Schemas['Budget'];
    };
  };
  /** Change the budget */
  'PUT /api/budget': {
    path: {};
    query: {};
    body: Schemas['UpdateBudget'];
    answer: {
      budget: Schemas['Budget'];
    };
  };
  /** Read usage by day, agent, model and end user */
  'GET /api/usage': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
      /** Comma-separated list of day, agent, model and end_user (default: all). The rest is summed. */
      group_by?: string;
      /** First day, YYYY-MM-DD, in UTC. */
      from?: string;
      /** Last day, likewise. */
      to?: string;
      /** Slug of an agent, which may be deleted. */
      agent?: string;
      model?: string;
      end_user_id?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['Usage'])[];
      next_cursor: string | null;
    };
  };
  /** List members */
  'GET /api/members': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['Member'])[];
      next_cursor: string | null;
    };
  };
  /** Fetch a member */
  'GET /api/members/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      member: Schemas['Member'];
    };
  };
  /** Change a member's role */
  'PATCH /api/members/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: Schemas['UpdateMember'];
    answer: {
      member: Schemas['Member'];
    };
  };
  /** Remove a member */
  'DELETE /api/members/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** List open invitations */
  'GET /api/invitations': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['Invitation'])[];
      next_cursor: string | null;
    };
  };
  /** Invite someone */
  'POST /api/invitations': {
    path: {};
    query: {};
    body: Schemas['CreateInvitation'];
    answer: {
      invitation: Schemas['Invitation'];
      token: string;
    };
  };
  /** Fetch an open invitation */
  'GET /api/invitations/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      invitation: Schemas['Invitation'];
    };
  };
  /** Change the role of an invitation */
  'PATCH /api/invitations/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: Schemas['UpdateInvitation'];
    answer: {
      invitation: Schemas['Invitation'];
    };
  };
  /** Withdraw an invitation */
  'DELETE /api/invitations/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Accept an invitation */
  'POST /api/invitations/accept': {
    path: {};
    query: {};
    body: Schemas['AcceptInvitation'];
    answer: {
      member: Schemas['Member'];
    };
  };
  /** List model credentials */
  'GET /api/model_credentials': {
    path: {};
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['ModelCredential'])[];
      next_cursor: string | null;
    };
  };
  /** Fetch a model credential */
  'GET /api/model_credentials/{provider}': {
    path: {
      provider: string;
    };
    query: {};
    body: undefined;
    answer: {
      model_credential: Schemas['ModelCredential'];
    };
  };
  /** Store a model credential */
  'PUT /api/model_credentials/{provider}': {
    path: {
      provider: string;
    };
    query: {};
    body: Schemas['StoreModelCredential'];
    answer: {
      model_credential: Schemas['ModelCredential'];
    };
  };
  /** Delete a model credential */
  'DELETE /api/model_credentials/{provider}': {
    path: {
      provider: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** List event types and webhook endpoints */
  'GET /api/webhook_endpoints': {
    path: {};
    query: {};
    body: undefined;
    answer: {
      event_types: (string)[];
      webhook_endpoints: (Schemas['WebhookEndpoint'])[];
    };
  };
  /** Create a webhook endpoint */
  'POST /api/webhook_endpoints': {
    path: {};
    query: {};
    body: Schemas['CreateWebhookEndpoint'];
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
      secret: string;
    };
  };
  /** Fetch a webhook endpoint */
  'GET /api/webhook_endpoints/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
    };
  };
  /** Change a webhook endpoint */
  'PATCH /api/webhook_endpoints/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: Schemas['UpdateWebhookEndpoint'];
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
    };
  };
  /** Delete a webhook endpoint */
  'DELETE /api/webhook_endpoints/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Enable a webhook endpoint */
  'POST /api/webhook_endpoints/{id}/enable': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
    };
  };
  /** Disable a webhook endpoint */
  'POST /api/webhook_endpoints/{id}/disable': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
    };
  };
  /** Rotate the signing secret */
  'POST /api/webhook_endpoints/{id}/rotate_secret': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      webhook_endpoint: Schemas['WebhookEndpoint'];
      secret: string;
    };
  };
  /** List deliveries */
  'GET /api/webhook_endpoints/{id}/deliveries': {
    path: {
      id: string;
    };
    query: {
      /** Page size, clamped to 1..200. */
      limit?: number;
      /** The `next_cursor` of the previous page. */
      cursor?: string;
      state?: 'pending' | 'delivered' | 'failed';
    };
    body: undefined;
    answer: {
      data: (Schemas['WebhookDelivery'])[];
      next_cursor: string | null;
    };
  };
  /** Send a test delivery */
  'POST /api/webhook_endpoints/{id}/test': {
    path: {
      id: string;
    };
    query: {};
    body: Schemas['TestWebhookEndpoint'] | null;
    answer: {
      delivery: Schemas['WebhookDelivery'];
    };
  };
  /** Recover a time range */
  'POST /api/webhook_endpoints/{id}/recover': {
    path: {
      id: string;
    };
    query: {};
    body: Schemas['RecoverWebhookEndpoint'];
    answer: {
      recovered: number;
    };
  };
  /** Fetch a delivery */
  'GET /api/webhook_deliveries/{id}': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      delivery: Schemas['WebhookDelivery'];
    };
  };
  /** Resend a delivery */
  'POST /api/webhook_deliveries/{id}/resend': {
    path: {
      id: string;
    };
    query: {};
    body: undefined;
    answer: {
      delivery: Schemas['WebhookDelivery'];
    };
  };
  /** Export audit events as JSON */
  'GET /api/audit_events': {
    path: {};
    query: {
      /** Only events with this action. */
      event_action?: string;
      /** Only events caused by this user. */
      user_id?: string;
      /** First day, YYYY-MM-DD, in UTC; an invalid date is ignored. */
      from?: string;
      /** Last day, likewise. */
      to?: string;
      /** At most 500. */
      limit?: number;
      /** The `meta.next_cursor` of the previous page. */
      cursor?: string;
    };
    body: undefined;
    answer: {
      data: (Schemas['AuditEvent'])[];
      meta: {
        row_estimate: number;
        limit: number;
        next_cursor: string | null;
      };
    };
  };
  /** Verify the hash chain of audit events */
  'GET /api/audit_events/verification': {
    path: {};
    query: {
      /** An earlier `head`: without an event of this hash the chain is not valid. */
      head?: string;
    };
    body: undefined;
    answer: {
      valid: boolean;
      checked: number;
      head: string;
      /** Null if no `head` was sent. */
      has_kept_head: boolean | null;
      broken: {
        created_at: string;
        action: string;
        reason: string;
      } | null;
    };
  };
  /** Export audit events as CSV */
  'GET /api/audit_events.csv': {
    path: {};
    query: {
      /** Only events with this action. */
      event_action?: string;
      /** Only events caused by this user. */
      user_id?: string;
      /** First day, YYYY-MM-DD, in UTC; an invalid date is ignored. */
      from?: string;
      /** Last day, likewise. */
      to?: string;
    };
    body: undefined;
    answer: string;
  };
  /** Create a managed session */
  'POST /{org}/{agent}/v1/managed-agents/sessions': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: Schemas['CreateManagedSession'] | null;
    answer: Schemas['ManagedSession'];
  };
  /** List managed sessions */
  'GET /{org}/{agent}/v1/managed-agents/sessions': {
    path: {
      org: string;
      agent: string;
    };
    query: {
      /** Required for anonymous callers; ignored with a verified token, which uses its subject. */
      end_user?: string;
    };
    body: undefined;
    answer: Schemas['ManagedSessionList'];
  };
  /** Post a user event */
  'POST /{org}/{agent}/v1/managed-agents/sessions/{session_id}/events': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: Schemas['PostEvent'];
    answer: Schemas['Accepted'];
  };
  /** Stage an upload */
  'POST /{org}/{agent}/v1/managed-agents/sessions/{session_id}/files': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: Schemas['StageUpload'];
    answer: Schemas['Uploaded'];
  };
  /** Warm a session */
  'POST /{org}/{agent}/v1/managed-agents/sessions/{session_id}/prewarm': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['Warming'];
  };
  /** Fetch a session with its log */
  'GET /{org}/{agent}/v1/managed-agents/sessions/{session_id}': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['ManagedSessionState'];
  };
  /** Read the transcript */
  'GET /{org}/{agent}/v1/managed-agents/sessions/{session_id}/transcript': {
    path: {
      org: string;
      agent: string;
      session_id: string;
    };
    query: {
      /** Required for anonymous callers; ignored with a verified token, which uses its subject. */
      end_user?: string;
    };
    body: undefined;
    answer: Schemas['ManagedTranscript'];
  };
  /** Use the session's MCP servers */
  'POST /{org}/{agent}/v1/managed-agents/mcp': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: Schemas['McpRequest'];
    answer: unknown;
  };
  /** Create a chat completion */
  'POST /{org}/{agent}/v1/chat/completions': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: Schemas['ChatCompletionRequest'];
    answer: Schemas['ChatCompletion'];
  };
  /** List the agent as a model */
  'GET /{org}/{agent}/v1/models': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['ModelList'];
  };
  /** Fetch the agent as a model */
  'GET /{org}/{agent}/v1/models/{model}': {
    path: {
      org: string;
      agent: string;
      model: string;
    };
    query: {};
    body: undefined;
    answer: {
      id: string;
      object: 'model';
      created: number;
      owned_by: string;
    };
  };
  /** Create a response */
  'POST /{org}/{agent}/v1/responses': {
    path: {
      org: string;
      agent: string;
    };
    query: {};
    body: Schemas['ResponseRequest'];
    answer: Schemas['Response'];
  };
  /** Fetch a response */
  'GET /{org}/{agent}/v1/responses/{response_id}': {
    path: {
      org: string;
      agent: string;
      response_id: string;
    };
    query: {
      /** Replays the stream and continues it while the turn runs. */
      stream?: boolean;
      /** Only events after this `sequence_number`. */
      starting_after?: number;
    };
    body: undefined;
    answer: Schemas['Response'];
  };
  /** Delete a response */
  'DELETE /{org}/{agent}/v1/responses/{response_id}': {
    path: {
      org: string;
      agent: string;
      response_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['DeletedResponse'];
  };
  /** List the input items of a response */
  'GET /{org}/{agent}/v1/responses/{response_id}/input_items': {
    path: {
      org: string;
      agent: string;
      response_id: string;
    };
    query: {
      /** desc: the newest first. */
      order?: 'asc' | 'desc';
      /** The `id` of the last item of the previous page. */
      after?: string;
      /** Page size, clamped to 1..100. */
      limit?: number;
    };
    body: undefined;
    answer: Schemas['InputItemList'];
  };
  /** Cancel a response */
  'POST /{org}/{agent}/v1/responses/{response_id}/cancel': {
    path: {
      org: string;
      agent: string;
      response_id: string;
    };
    query: {};
    body: undefined;
    answer: Schemas['Response'];
  };
}
