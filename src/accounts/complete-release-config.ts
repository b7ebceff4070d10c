import { ServiceError } from '../errors.ts';
import { readModelSettings } from '../model-settings.ts';
import {
  type BuiltInTool,
  builtInTools,
  googleModelName,
  instanceScopes,
  type McpServerConfig,
  type ModelConfig,
  type PermissionRule,
  permissionModes,
  providers,
  type ReleaseConfig,
  type SubAgentConfig,
} from '../release-config.ts';
import { isRecord } from '../text/json.ts';
import { FieldReader } from './field-reader.ts';

const nameRules = {
  maxLength: 64,
  format: { pattern: /^[A-Za-z0-9][A-Za-z0-9_-]*$/, words: 'one or more of A-Z a-z 0-9 _ - and start with a letter or digit' },
};
const topLevelFields = ['instructions', 'model', 'main', 'agents', 'tools', 'mcp_servers', 'permissions', 'instance', 'limits', 'context'];
const modelNameFormat = { pattern: /\S/, words: 'a model name' };
const googleNameFormat = {
  pattern: googleModelName,
  words: 'a name such as gemini-2.5-pro, models/gemini-2.5-pro or tunedModels/my-model, of A-Z a-z 0-9 . _ -',
};
const instructionsRules = { maxLength: 200_000 };

/** Checks what a customer sent as a release and fills in what it left out. Throws `invalid`, naming the field. */
export function completeReleaseConfig(input: unknown): ReleaseConfig {
  const fields = new FieldReader(input, '', topLevelFields);
  const instructions = fields.string('instructions', '', instructionsRules);
  const agents = readSubAgents(fields, instructions);
  return {
    instructions,
    model: fields.raw('model') === undefined ? defaultModel() : readModel(fields.raw('model'), 'model'),
    main: readMain(fields, agents),
    agents,
    tools: fields.raw('tools') === undefined ? [...builtInTools] : fields.list('tools', builtInTools.length, readTool),
    mcp_servers: readMcpServers(fields),
    permissions: readPermissions(fields.raw('permissions') ?? {}),
    instance: {
      scope: new FieldReader(fields.raw('instance') ?? {}, 'instance', ['scope']).oneOf('scope', instanceScopes, 'end_user'),
    },
    limits: readLimits(fields.raw('limits') ?? {}),
    context: readContext(fields.raw('context') ?? {}),
  };
}

function defaultModel(): ModelConfig {
  return { provider: 'offline', name: 'demo', base_url: null, settings: {} };
}

function readModel(value: unknown, path: string): ModelConfig {
  const fields = new FieldReader(value, path, ['provider', 'name', 'base_url', 'settings']);
  const provider = fields.oneOf('provider', providers, undefined);
  const format = provider === 'google' ? googleNameFormat : modelNameFormat;
  const name = fields.string('name', provider === 'offline' ? 'demo' : undefined, { maxLength: 200, format });
  const baseUrl = fields.raw('base_url');
  if (baseUrl === undefined && provider === 'openai-compatible') throw fields.refuse('base_url', 'is required for openai-compatible');
  if (baseUrl !== undefined && provider === 'offline') throw fields.refuse('base_url', 'has no meaning for the offline model');
  const settings = fields.raw('settings') ?? {};
  if (!isRecord(settings)) throw fields.refuse('settings', 'must be an object');
  // Checked already here: otherwise the release would be materialized, and every turn on it would fail.
  readModelSettings(settings, (setting, reason) => fields.refuse(`settings.${setting}`, reason));
  return { provider, name, base_url: baseUrl === undefined ? null : readUrl(fields, 'base_url'), settings: { ...settings } };
}

function readUrl(fields: FieldReader, key: string): string {
  const url = fields.string(key, undefined, { maxLength: 2_048 });
  if (!URL.canParse(url) || !['http:', 'https:'].includes(new URL(url).protocol)) throw fields.refuse(key, 'must be an http or https URL');
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') throw fields.refuse(key, 'must not contain credentials; store them as a model credential');
  return url;
}

/** A release without `agents` has one sub-agent. The main one gets the release's instructions unless it has its own. */
function readSubAgents(fields: FieldReader, instructions: string): SubAgentConfig[] {
  const agents = fields.list('agents', 64, readSubAgent);
  if (agents.length === 0) return [{ name: fields.string('main', 'main', nameRules), instructions }];
  assertUnique(
    agents.map((agent) => agent.name),
    'agents',
  );
  const main = readMain(fields, agents);
  return agents.map((agent) => ({ ...agent, instructions: agent.instructions ?? (agent.name === main ? instructions : '') }));
}

function readSubAgent(item: unknown, path: string): Omit<SubAgentConfig, 'instructions'> & { instructions: string | undefined } {
  const fields = new FieldReader(item, path, ['name', 'instructions', 'model', 'tools']);
  return {
    name: fields.string('name', undefined, nameRules),
    instructions: fields.raw('instructions') === undefined ? undefined : fields.string('instructions', undefined, instructionsRules),
    ...(fields.raw('model') === undefined ? {} : { model: readModel(fields.raw('model'), fields.path('model')) }),
    ...(fields.raw('tools') === undefined ? {} : { tools: fields.list('tools', builtInTools.length, readTool) }),
  };
}

function readMain(fields: FieldReader, agents: readonly { name: string }[]): string {
  const names = agents.map((agent) => agent.name);
  const fallback = names.includes('main') ? 'main' : names[0];
  const main = fields.string('main', fallback, nameRules);
  if (!names.includes(main)) throw fields.refuse('main', `names no sub-agent; there are ${names.join(', ')}`);
  return main;
}

function readTool(item: unknown, path: string): BuiltInTool {
  const tool = builtInTools.find((candidate) => candidate === item);
  if (tool === undefined) throw new ServiceError('invalid', `${path}: must be one of ${builtInTools.join(', ')}`);
  return tool;
}

function readMcpServers(fields: FieldReader): McpServerConfig[] {
  const servers = fields.list('mcp_servers', 32, (item, path) => {
    const server = new FieldReader(item, path, ['name', 'url', 'credential']);
    const name = server.string('name', undefined, { ...nameRules, maxLength: 32 });
    // Its tools are named `<server>__<tool>`.
    if (name.includes('__')) throw server.refuse('name', 'must not contain "__"');
    const url = readUrl(server, 'url');
    return {
      name,
      url,
      ...(server.raw('credential') === undefined ? {} : { credential: server.string('credential', undefined, nameRules) }),
    };
  });
  assertUnique(
    servers.map((server) => server.name),
    'mcp_servers',
  );
  return servers;
}

function readPermissions(value: unknown): ReleaseConfig['permissions'] {
  const fields = new FieldReader(value, 'permissions', ['mode', 'rules']);
  return {
    mode: fields.oneOf('mode', permissionModes, 'interactive'),
    rules: fields.list('rules', 500, (item, path): PermissionRule => {
      const rule = new FieldReader(item, path, ['tool', 'match', 'action']);
      return {
        tool: rule.string('tool', undefined, { maxLength: 200, format: { pattern: /\S/, words: 'the name of a tool' } }),
        ...(rule.raw('match') === undefined ? {} : { match: rule.string('match', undefined, { maxLength: 2_000 }) }),
        action: rule.oneOf('action', ['allow', 'ask', 'deny'], undefined),
      };
    }),
  };
}

function readLimits(value: unknown): ReleaseConfig['limits'] {
  const fields = new FieldReader(value, 'limits', ['max_steps', 'turn_timeout_s']);
  return { max_steps: fields.integer('max_steps', 32, 1, 1_000), turn_timeout_s: fields.integer('turn_timeout_s', 600, 1, 86_400) };
}

function readContext(value: unknown): ReleaseConfig['context'] {
  const fields = new FieldReader(value, 'context', ['limit_tokens', 'overflow']);
  const limit = fields.raw('limit_tokens') === undefined ? null : fields.integer('limit_tokens', 0, 256, 100_000_000);
  return { limit_tokens: limit, overflow: fields.oneOf('overflow', ['drop', 'summarize'], 'drop') };
}

function assertUnique(names: string[], field: string): void {
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new ServiceError('invalid', `${field}: the name "${duplicate}" is used twice`);
}
