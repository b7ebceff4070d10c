import type { Command } from 'commander';
import { call, organizationSlug, stream } from '../api.ts';
import { print, type Row, table } from '../print.ts';

export function sessionCommands(program: Command): void {
  const sessions = program.command('sessions').description('conversations of an agent');
  sessions
    .command('list <agent>')
    .description('the newest first, 50 to a page')
    .option('--active', 'only those active in the last 15 minutes')
    .option('--page <n>', 'which page', '1')
    .action(async (agent: string, options: { active?: boolean; page: string }, command: Command) => {
      const query = `page=${encodeURIComponent(options.page)}${options.active ? '&active=true' : ''}`;
      const answer = await call<{ sessions: Row[]; total: number }>('GET', `${await base(agent)}/sessions?${query}`);
      const columns = ['id', 'status', 'message_count', 'last_message_at', 'end_user_id'];
      print(command, answer, () => table(answer.sessions, columns, 'No sessions yet. Start one with: parley chat'));
    });
  sessions
    .command('show <agent> <id>')
    .description('its state, and what was said')
    .action(async (agent: string, id: string, _options, command: Command) => {
      const path = `${await base(agent)}/sessions/${encodeURIComponent(id)}`;
      const session = await call<Row>('GET', path);
      const { messages } = await call<{ messages: { role: string; text: string }[] }>('GET', `${path}/messages`);
      const words = () => [`${session.id} (${session.status})`, ...messages.map(({ role, text }) => `\n${role}: ${text}`)].join('\n');
      print(command, { session, messages }, words);
    });
  sessions
    .command('tail <agent> <id>')
    .description('follow the log of a session')
    .option('--after <seq>', 'begin after this entry', '0')
    .action(async (agent: string, id: string, options: { after: string }, command: Command) => {
      const path = `${await base(agent)}/managed-agents/sessions/${encodeURIComponent(id)}/events/stream?after=${encodeURIComponent(options.after)}`;
      for await (const event of stream('GET', path)) {
        const entry = JSON.parse(event.data) as Row;
        print(command, entry, () => `${String(entry.seq ?? '').padStart(5)}  ${entry.type}  ${summary(entry)}`);
      }
    });
  sessions
    .command('stop <agent> <id>')
    .description('interrupt its turn and take no more messages')
    .action(async (agent: string, id: string, _options, command: Command) => {
      const answer = await call('DELETE', `${await base(agent)}/sessions/${encodeURIComponent(id)}`);
      print(command, answer, () => `Stopped ${id}.`);
    });
}

async function base(agent: string): Promise<string> {
  return `/${await organizationSlug()}/${encodeURIComponent(agent)}/v1`;
}

function summary(entry: Row): string {
  const { seq: _seq, type: _type, session_id: _session, created_at: _at, turn_id: _turn, ...rest } = entry;
  return JSON.stringify(rest).slice(0, 200);
}
