import type { Command } from 'commander';
import { loadClientSettings } from '../../config.ts';
import { call, callList } from '../api.ts';
import { requireSome, wholeNumberOrNone } from '../given.ts';
import { print, type Row, table } from '../print.ts';

type Organization = Row & { subscription: { plan: string; status: string } | null };

/** What the operator of the installation does with organizations. */
export function organizationCommands(program: Command): void {
  const orgs = program.command('orgs').description('organizations; requires PARLEY_OPERATOR_KEY');
  orgs
    .command('list')
    .description('list organizations with their status, what they may spend and have spent, and their subscription')
    .action(async (_options, command: Command) => {
      const { data: organizations, next_cursor } = await callList<Organization>('/operator/organizations', 'PARLEY_OPERATOR_KEY');
      print(command, { organizations, next_cursor }, () =>
        table(
          organizations.map(({ subscription: of, ...rest }) => ({ ...rest, subscription: of && `${of.plan}, ${of.status}` })),
          ['slug', 'name', 'status', 'credits_micros', 'spent_micros', 'total_tokens_cap', 'tokens_used', 'subscription'],
          'No organizations yet. Create one with: parley orgs create <slug>',
        ),
      );
    });
  orgs
    .command('create <slug>')
    .description('create an organization with a first API key')
    .option('--name <name>', 'display name (default: the slug)')
    .action(async (slug: string, options: { name?: string }, command: Command) => {
      const answer = await call<{ api_key: string }>('POST', '/operator/organizations', { slug, ...options }, 'PARLEY_OPERATOR_KEY');
      print(command, answer, () => `Created ${slug}. API key (shown once): ${answer.api_key}`);
    });
  orgs
    .command('invite <slug>')
    .description('create a link with which someone joins the dashboard, for its first owner or when no owner can sign in')
    .option('--role <role>', 'owner, admin or member', 'owner')
    .option('--email <email>', 'only for this address')
    .action(async (slug: string, options: { role: string; email?: string }, command: Command) => {
      const path = `/operator/organizations/${encodeURIComponent(slug)}/invitations`;
      const answer = await call<{ token: string }>('POST', path, options, 'PARLEY_OPERATOR_KEY');
      print(command, answer, () => `${loadClientSettings().publicUrl}/dashboard/join?token=${answer.token}`);
    });
  orgs
    .command('budget <slug>')
    .description('change its prepaid credits, its token cap or both')
    .option('--credits-micros <n>', 'micro-dollars, or none for no limit')
    .option('--total-tokens-cap <n>', 'a whole number, or none')
    .action(async (slug: string, options: { creditsMicros?: string; totalTokensCap?: string }, command: Command) => {
      const body = {
        credits_micros: wholeNumberOrNone('--credits-micros', options.creditsMicros),
        total_tokens_cap: wholeNumberOrNone('--total-tokens-cap', options.totalTokensCap),
      };
      const answer = await patch(slug, requireSome(body, '--credits-micros or --total-tokens-cap'));
      const { credits_micros: credits, total_tokens_cap: cap } = answer.organization;
      print(command, answer, () => `${slug}: credits_micros ${credits ?? 'none'}, total_tokens_cap ${cap ?? 'none'}`);
    });
  orgs
    .command('subscription <slug> <plan> <status>')
    .description('set its plan, which is active, past_due (its turns are refused) or canceled')
    .action(async (slug: string, plan: string, status: string, _options, command: Command) => {
      const answer = await patch(slug, { subscription: { plan, status } });
      print(command, answer, () => `${slug}: ${plan}, ${status}`);
    });
  for (const [name, status, description] of [
    ['suspend', 'suspended', 'refuse all of its requests'],
    ['resume', 'active', 'accept its requests again'],
  ] as const) {
    orgs
      .command(`${name} <slug>`)
      .description(description)
      .action(async (slug: string, _options, command: Command) => {
        const answer = await patch(slug, { status });
        print(command, answer, () => `${slug} is ${status}.`);
      });
  }
}

function patch(slug: string, changes: object): Promise<{ organization: Row }> {
  return call('PATCH', `/operator/organizations/${encodeURIComponent(slug)}`, changes, 'PARLEY_OPERATOR_KEY');
}
