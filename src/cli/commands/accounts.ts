import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { call } from '../api.ts';
import { print, type Row, table } from '../print.ts';

/** Organizations (as the operator), keys, agents, the budget and stored credentials. */
export function accountCommands(program: Command): void {
  organizations(program.command('orgs').description('organizations; needs PARLEY_OPERATOR_KEY'));
  keys(program.command('keys').description('API keys'));
  agents(program.command('agents').description('agents'));
  budget(program.command('budget').description('what may be spent, and what was'));
  credentials(program.command('credentials').description('model keys and MCP credentials of the organization'));
}

function organizations(orgs: Command): void {
  orgs.command('list').action(async (_options, command: Command) => {
    const answer = await call<{ organizations: Row[] }>('GET', '/operator/organizations', undefined, 'PARLEY_OPERATOR_KEY');
    print(command, answer, () =>
      table(answer.organizations, ['slug', 'name', 'status'], 'No organizations yet. Make one with: parley orgs create <slug>'),
    );
  });
  orgs
    .command('create <slug>')
    .option('--name <name>')
    .action(async (slug: string, options: { name?: string }, command: Command) => {
      const answer = await call<{ api_key: string }>('POST', '/operator/organizations', { slug, ...options }, 'PARLEY_OPERATOR_KEY');
      print(command, answer, () => `Created ${slug}. Its API key, shown once: ${answer.api_key}`);
    });
  for (const [name, status] of [
    ['suspend', 'suspended'],
    ['resume', 'active'],
  ] as const) {
    orgs.command(`${name} <slug>`).action(async (slug: string, _options, command: Command) => {
      const answer = await call('PATCH', `/operator/organizations/${encodeURIComponent(slug)}`, { status }, 'PARLEY_OPERATOR_KEY');
      print(command, answer, () => `${slug} is ${status}.`);
    });
  }
}

function keys(group: Command): void {
  group.command('list').action(async (_options, command: Command) => {
    const answer = await call<{ data: Row[] }>('GET', '/api/api_keys?limit=200');
    print(command, answer, () => table(answer.data, ['id', 'name', 'prefix', 'scopes', 'last_used_at'], 'No keys.'));
  });
  group
    .command('create <name>')
    .requiredOption('--scopes <scopes>', 'separated by commas')
    .action(async (name: string, options: { scopes: string }, command: Command) => {
      const answer = await call<{ secret: string }>('POST', '/api/api_keys', {
        name,
        scopes: options.scopes.split(',').map((scope) => scope.trim()),
      });
      print(command, answer, () => `Shown once: ${answer.secret}`);
    });
  group.command('revoke <id>').action(async (id: string, _options, command: Command) => {
    const answer = await call('DELETE', `/api/api_keys/${encodeURIComponent(id)}`);
    print(command, answer, () => `Key ${id} is revoked.`);
  });
}

function agents(group: Command): void {
  group.command('list').action(async (_options, command: Command) => {
    const answer = await call<{ data: Row[] }>('GET', '/api/agents?limit=200');
    print(command, answer, () =>
      table(answer.data, ['slug', 'name', 'active_version', 'default'], 'No agents. Make one with: parley agents create <slug>'),
    );
  });
  group
    .command('create <slug>')
    .option('--name <name>')
    .option('--description <text>')
    .option('--default', 'make it the one that flat routes talk to')
    .action(async (slug: string, options: { name?: string; description?: string; default?: boolean }, command: Command) => {
      const answer = await call('POST', '/api/agents', { slug, name: options.name ?? slug, ...options });
      print(command, answer, () => `Created ${slug}. Give it a release: parley releases create ${slug} <file>`);
    });
  group.command('delete <slug>').action(async (slug: string, _options, command: Command) => {
    const answer = await call('DELETE', `/api/agents/${encodeURIComponent(slug)}`);
    print(command, answer, () => `Deleted ${slug}.`);
  });
}

function budget(group: Command): void {
  const show = (answer: { budget: Row }) =>
    Object.entries(answer.budget)
      .map(([name, value]) => `${name}: ${value ?? 'none'}`)
      .join('\n');
  group.command('show', { isDefault: true }).action(async (_options, command: Command) => {
    const answer = await call<{ budget: Row }>('GET', '/api/budget');
    print(command, answer, () => show(answer));
  });
  group
    .command('set')
    .option('--total-tokens-cap <n>', 'a number, or none')
    .option('--instance-spend-cap-micros <n>', 'a number, or none')
    .action(async (options: { totalTokensCap?: string; instanceSpendCapMicros?: string }, command: Command) => {
      const body = {
        ...(options.totalTokensCap === undefined ? {} : { total_tokens_cap: cap(options.totalTokensCap) }),
        ...(options.instanceSpendCapMicros === undefined ? {} : { instance_spend_cap_micros: cap(options.instanceSpendCapMicros) }),
      };
      const answer = await call<{ budget: Row }>('PUT', '/api/budget', body);
      print(command, answer, () => show(answer));
    });
}

function cap(given: string): number | null {
  return given === 'none' ? null : Number(given);
}

function credentials(group: Command): void {
  group.command('list').action(async (_options, command: Command) => {
    const answer = await call<{ data: Row[] }>('GET', '/api/model_credentials');
    print(command, answer, () =>
      table(answer.data, ['provider', 'last_four', 'updated_at'], 'None stored. Store one with: parley credentials set <provider>'),
    );
  });
  group
    .command('set <name>')
    .description('reads the key from standard input, so that it stays out of the shell history')
    .action(async (name: string, _options, command: Command) => {
      if (process.stdin.isTTY) process.stderr.write('Paste the key, then press Ctrl-D:\n');
      const key = await text(process.stdin);
      const answer = await call('PUT', `/api/model_credentials/${encodeURIComponent(name)}`, { api_key: key.trim() });
      print(command, answer, () => `Stored the credential for ${name}.`);
    });
  group.command('delete <name>').action(async (name: string, _options, command: Command) => {
    const answer = await call('DELETE', `/api/model_credentials/${encodeURIComponent(name)}`);
    print(command, answer, () => `Deleted the credential for ${name}.`);
  });
}
