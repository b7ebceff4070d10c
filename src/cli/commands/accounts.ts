import type { Command } from 'commander';
import { list } from '../../setting-parsers.ts';
import { call, callList } from '../api.ts';
import { requireSome, secretFromInput, wholeNumber } from '../given.ts';
import { print, table } from '../print.ts';

/** API keys, agents, session tokens and stored credentials. */
export function accountCommands(program: Command): void {
  keys(program.command('keys').description('API keys'));
  agents(program.command('agents').description('agents'));
  token(program.command('token <agent>'));
  credentials(program.command('credentials').description('model keys and MCP credentials of the organization'));
}

function keys(group: Command): void {
  group
    .command('list')
    .description('list keys, without their secrets')
    .action(async (_options, command: Command) => {
      const answer = await callList('/api/api_keys');
      print(command, answer, () => table(answer.data, ['id', 'name', 'prefix', 'last_used_at', 'revoked_at', 'scopes'], 'No keys yet.'));
    });
  group
    .command('create <name>')
    .description('create a key; its secret is shown once')
    .requiredOption('--scopes <scopes>', 'comma-separated, such as sessions:read,session_tokens:mint; "" for conversations only (required)')
    .action(async (name: string, options: { scopes: string }, command: Command) => {
      const answer = await call<{ secret: string }>('POST', '/api/api_keys', {
        name,
        scopes: list(options.scopes),
      });
      print(command, answer, () => `API key (shown once): ${answer.secret}`);
    });
  group
    .command('revoke <id>')
    .description('revoke a key; its next request is refused')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call('DELETE', `/api/api_keys/${encodeURIComponent(id)}`);
      print(command, answer, () => `Key ${id} is revoked.`);
    });
}

function agents(group: Command): void {
  group
    .command('list')
    .description('list agents with their active release')
    .action(async (_options, command: Command) => {
      const answer = await callList('/api/agents');
      print(command, answer, () =>
        table(
          answer.data,
          ['slug', 'name', 'active_version', 'active_state', 'default'],
          'No agents yet. Create one with: parley agents create <slug>',
        ),
      );
    });
  group
    .command('create <slug>')
    .description('create an agent; it needs a release before it can answer')
    .option('--name <name>', 'display name (default: the slug)')
    .option('--description <text>', 'what it is for')
    .option('--default', 'make it the default agent, which the flat routes use')
    .action(async (slug: string, options: { name?: string; description?: string; default?: boolean }, command: Command) => {
      const answer = await call('POST', '/api/agents', { slug, ...options });
      print(command, answer, () => `Created ${slug}. Give it a release: parley releases create ${slug} <file>`);
    });
  group
    .command('update <slug>')
    .description('change an agent')
    .option('--name <name>', 'display name')
    .option('--description <text>', 'what it is for')
    .option('--default', 'make it the default agent, which the flat routes use')
    .action(async (slug: string, options: { name?: string; description?: string; default?: boolean }, command: Command) => {
      const changes = requireSome(options, '--name, --description or --default');
      const answer = await call('PATCH', `/api/agents/${encodeURIComponent(slug)}`, changes);
      print(command, answer, () => `Changed ${slug}.`);
    });
  group
    .command('delete <slug>')
    .description('delete an agent; its sessions can no longer be reached')
    .action(async (slug: string, _options, command: Command) => {
      const answer = await call('DELETE', `/api/agents/${encodeURIComponent(slug)}`);
      print(command, answer, () => `Deleted ${slug}.`);
    });
}

/** It prints nothing but the token, so that a shell can put it into a header. */
function token(command: Command): void {
  command
    .description('mint a session token, with which a browser talks to this agent')
    .option('--end-user <id>', 'for this end user; without it the token is anonymous')
    .option('--ttl <seconds>', 'how long it is valid, 60 to 7200 (default: 900)')
    .option('--instance <id>', 'the durable instance to use')
    .option('--no-approvals', 'it cannot answer approvals')
    .action(async (agent: string, options: { endUser?: string; ttl?: string; instance?: string; approvals: boolean }) => {
      const answer = await call<{ token: string }>('POST', `/api/agents/${encodeURIComponent(agent)}/session_tokens`, {
        end_user_id: options.endUser,
        ttl_seconds: wholeNumber('--ttl', options.ttl),
        agent_instance_id: options.instance,
        may_approve: options.approvals,
      });
      print(command, answer, () => answer.token);
    });
}

function credentials(group: Command): void {
  group
    .command('list')
    .description('list stored credentials with their last four characters')
    .action(async (_options, command: Command) => {
      const answer = await callList('/api/model_credentials');
      print(command, answer, () =>
        table(
          answer.data,
          ['provider', 'last_four', 'updated_at'],
          'No credentials yet. Store one with: parley credentials set <provider>',
        ),
      );
    });
  group
    .command('set <name>')
    .description('store the credential of a model provider or MCP server, read from standard input')
    .action(async (name: string, _options, command: Command) => {
      const key = await secretFromInput(`parley credentials set ${name}`);
      const answer = await call('PUT', `/api/model_credentials/${encodeURIComponent(name)}`, { api_key: key });
      print(command, answer, () => `Stored the credential for ${name}.`);
    });
  group
    .command('delete <name>')
    .description('delete a credential; turns that need it will fail')
    .action(async (name: string, _options, command: Command) => {
      const answer = await call('DELETE', `/api/model_credentials/${encodeURIComponent(name)}`);
      print(command, answer, () => `Deleted the credential for ${name}.`);
    });
}
