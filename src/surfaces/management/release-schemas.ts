import { builtInTools, instanceScopes, permissionModes, providers } from '../../release-config.ts';
import { Type } from '../shared/schemas/type.ts';

// The release config for the OpenAPI document. A body is checked by `completeReleaseConfig` first, whose errors say more.

const provider = Type.Enum([...providers]);
const tool = Type.Enum([...builtInTools]);
const nullable = { description: 'null is the same as absent.' };

const model = Type.Object(
  {
    provider,
    name: Type.Optional(Type.String({ description: 'Required for every provider except offline.' })),
    base_url: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'Required for openai-compatible.' })),
    settings: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'temperature, max_output_tokens, top_p, stop, provider_options' }),
    ),
  },
  { title: 'Model', additionalProperties: false },
);

const subAgent = Type.Object(
  {
    name: Type.String(),
    instructions: Type.Optional(Type.String()),
    model: Type.Optional(Type.Union([model, Type.Null()], nullable)),
    tools: Type.Optional(Type.Union([Type.Array(tool), Type.Null()], nullable)),
  },
  { title: 'SubAgent', additionalProperties: false },
);

const mcpServer = Type.Object(
  {
    name: Type.String({ description: 'Its tools are named <server>__<tool>.' }),
    url: Type.String(),
    credential: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'A stored credential, sent as a bearer token.' })),
  },
  { title: 'McpServer', additionalProperties: false },
);

const rule = Type.Object(
  {
    tool: Type.String(),
    match: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: 'A glob over the command, path, URL or sub-agent, or over the input of an MCP tool as JSON.',
      }),
    ),
    action: Type.Enum(['allow', 'ask', 'deny']),
  },
  { title: 'PermissionRule', additionalProperties: false },
);

const sections = {
  permissions: Type.Object(
    {
      mode: Type.Optional(Type.Enum([...permissionModes], { default: 'interactive' })),
      rules: Type.Optional(Type.Array(rule, { description: 'The last rule that matches wins.' })),
    },
    { additionalProperties: false },
  ),
  instance: Type.Object(
    { scope: Type.Optional(Type.Enum([...instanceScopes], { default: 'end_user' })) },
    { additionalProperties: false, description: 'What shares an instance, that is, files and a spending cap.' },
  ),
  limits: Type.Object(
    {
      max_steps: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 32 })),
      turn_timeout_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400, default: 600 })),
    },
    { additionalProperties: false },
  ),
  context: Type.Object(
    {
      limit_tokens: Type.Optional(Type.Union([Type.Integer({ minimum: 256 }), Type.Null()])),
      overflow: Type.Optional(Type.Enum(['drop', 'summarize'], { default: 'drop' })),
    },
    { additionalProperties: false, description: "What happens when the conversation nears the model's context limit." },
  ),
};

const example = {
  instructions: 'You are the support desk of Example Ltd. Answer briefly.',
  model: { provider: 'offline', name: 'demo' },
  tools: ['files'],
  permissions: { mode: 'interactive', rules: [{ tool: 'bash', match: 'rm *', action: 'deny' }] },
  activate: true,
};

export const releaseBody = Type.Object(
  {
    instructions: Type.Optional(Type.String({ maxLength: 200_000, description: 'System prompt of the main sub-agent.' })),
    model: Type.Optional(model),
    main: Type.Optional(Type.String({ description: 'The sub-agent with which new sessions start.' })),
    agents: Type.Optional(Type.Array(subAgent, { description: 'By default there is one sub-agent, "main".' })),
    tools: Type.Optional(Type.Array(tool, { description: 'Built-in tools of every sub-agent that names none; all of them if absent.' })),
    mcp_servers: Type.Optional(Type.Array(mcpServer)),
    permissions: Type.Optional(sections.permissions),
    instance: Type.Optional(sections.instance),
    limits: Type.Optional(sections.limits),
    context: Type.Optional(sections.context),
    activate: Type.Optional(Type.Boolean({ default: false, description: 'Activate it in the same call.' })),
  },
  { title: 'CreateRelease', additionalProperties: false, examples: [example] },
);

export const releaseState = Type.Enum(['pending', 'materializing', 'materialized', 'failed']);

export const releaseObject = Type.Object(
  {
    version: Type.Integer(),
    state: releaseState,
    active: Type.Boolean(),
    error: Type.Union([Type.String(), Type.Null()], { description: 'Which step of materializing failed, and why.' }),
    created_at: Type.String(),
    config: Type.Record(Type.String(), Type.Unknown(), { description: 'The config with every default filled in.' }),
    pinned_tools: Type.Array(
      Type.Object({ server: Type.String(), name: Type.String(), description: Type.String(), read_only: Type.Boolean() }),
      { description: 'The MCP tools as they were when the release was materialized.' },
    ),
  },
  { title: 'Release' },
);
