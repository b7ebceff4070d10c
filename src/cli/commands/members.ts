import type { Command } from 'commander';
import { loadClientSettings } from '../../config.ts';
import { call, callList } from '../api.ts';
import { print, table } from '../print.ts';

/** Members of the organization, and invitations. */
export function memberCommands(program: Command): void {
  const members = program.command('members').description('people with access to the dashboard');
  members
    .command('list')
    .description('list members with their role')
    .action(async (_options, command: Command) => {
      const answer = await callList('/api/members');
      print(command, answer, () =>
        table(answer.data, ['id', 'email', 'name', 'role'], 'No members yet. Invite one with: parley members invite <email>'),
      );
    });
  members
    .command('invite <email>')
    .description('create a link with which someone joins; it works once, for seven days, and no mail is sent')
    .option('--role <role>', 'owner, admin or member', 'member')
    .action(async (email: string, options: { role: string }, command: Command) => {
      const answer = await call<{ token: string }>('POST', '/api/invitations', { email, ...options });
      print(command, answer, () => `${loadClientSettings().publicUrl}/dashboard/join?token=${answer.token}`);
    });
  members
    .command('invitations')
    .description('list invitations that nobody has accepted yet')
    .action(async (_options, command: Command) => {
      const answer = await callList('/api/invitations');
      print(command, answer, () => table(answer.data, ['id', 'email', 'role', 'expires_at'], 'No open invitations.'));
    });
  members
    .command('withdraw <invitation-id>')
    .description('withdraw an invitation; its link no longer works')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call('DELETE', `/api/invitations/${encodeURIComponent(id)}`);
      print(command, answer, () => `Invitation ${id} is withdrawn.`);
    });
  members
    .command('role <id> <role>')
    .description('make a member an owner, admin or member')
    .action(async (id: string, role: string, _options, command: Command) => {
      const answer = await call<{ member: { email: string } }>('PATCH', `/api/members/${encodeURIComponent(id)}`, { role });
      print(command, answer, () => `${answer.member.email} is now ${role}.`);
    });
  members
    .command('remove <id>')
    .description('remove a member; they lose access at once')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call('DELETE', `/api/members/${encodeURIComponent(id)}`);
      print(command, answer, () => `Member ${id} is removed.`);
    });
}
