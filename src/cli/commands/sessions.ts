import { fstatSync } from 'node:fs';
import type { Command } from 'commander';
import { fieldOf } from '../../text/json.ts';
import { agentRoutes, call, stream } from '../api.ts';
import { print, type Row, shortened, table } from '../print.ts';

export function sessionCommands(program: Command): void {
  const sessions = program.command('sessions').description('sessions (conversations) of an agent');
  sessions
    .command('list <agent>')
    .description('list sessions, most recent activity first, 50 per page')
    .option('--active', 'only sessions active in the last 15 minutes')
    .option('--page <n>', 'page number', '1')
    .action(async (agent: string, options: { active?: boolean; page: string }, command: Command) => {
      const query = `page=${encodeURIComponent(options.page)}${options.active ? '&active=true' : ''}`;
      const answer = await call<{ sessions: Row[]; page: number; total: number }>('GET', `${await agentRoutes(agent)}/sessions?${query}`);
      const columns = ['id', 'status', 'message_count', 'last_message_at', 'end_user_id'];
      const pages = Math.ceil(answer.total / 50);
      const empty = answer.total === 0 ? `No sessions yet. Start one with: parley chat ${agent}` : `There is no page ${answer.page}.`;
      const place = pages > 1 && answer.sessions.length > 0 ? `\n\nPage ${answer.page} of ${pages}, ${answer.total} sessions.` : '';
      print(command, answer, () => table(answer.sessions, columns, empty) + place);
    });
  sessions
    .command('show <agent> <id>')
    .description('show a session and its transcript')
    .action(async (agent: string, id: string, _options, command: Command) => {
      const path = `${await agentRoutes(agent)}/sessions/${encodeURIComponent(id)}`;
      const session = await call<Row>('GET', path);
      const { messages } = await call<{ messages: { role: string; text: string }[] }>('GET', `${path}/messages`);
      const words = () => [`${session.id} (${session.status})`, ...messages.map(({ role, text }) => `\n${role}: ${text}`)].join('\n');
      print(command, { session, messages }, words);
    });
  sessions
    .command('tail <agent> <id>')
    .description('follow the event log of a session')
    .option('--after <seq>', 'start after this entry', '0')
    .action(async (agent: string, id: string, options: { after: string }, command: Command) => {
      const path = `${await agentRoutes(agent)}/managed-agents/sessions/${encodeURIComponent(id)}/events/stream`;
      let last: unknown = options.after;
      const describeBreak = (error?: unknown) => new Error(`the server closed the stream; continue with --after ${last}`, { cause: error });
      let early = '';
      let timer: NodeJS.Timeout | undefined;
      for await (const event of stream('GET', `${path}?after=${encodeURIComponent(options.after)}`, undefined, describeBreak)) {
        clearTimeout(timer);
        const entry = JSON.parse(event.data) as Row;
        const line = `${String(entry.seq ?? '').padStart(6)}  ${entry.type}  ${summary(entry)}`;
        print(command, entry, () => line.slice(early.length));
        early = '';
        last = entry.seq ?? last;
        // That the reader of a pipe has ended, as `head` does, only shows when something is written, and the next entry may be long in
        // coming. So the space that its line begins with is written early. With --json it comes before the JSON, where it may be.
        if (!isPiped()) continue;
        timer = setTimeout(() => {
          early = ' ';
          process.stdout.write(early);
        }, 250).unref();
      }
      throw describeBreak();
    });
  sessions
    .command('stop <agent> <id>')
    .description('stop a session: interrupt its turn and refuse further messages')
    .action(async (agent: string, id: string, _options, command: Command) => {
      const answer = await call('DELETE', `${await agentRoutes(agent)}/sessions/${encodeURIComponent(id)}`);
      print(command, answer, () => `Stopped ${id}.`);
    });
}

function isPiped(): boolean {
  const output = fstatSync(process.stdout.fd);
  return output.isFIFO() || output.isSocket();
}

/** For a request, what a person is asked; the rest of it would fill the line. */
function summary(entry: Row): string {
  const { seq: _seq, type: _type, session_id: _session, created_at: _at, turn_id: _turn, ...rest } = entry;
  const { stop_reason, request_id, pending_input: request } = rest;
  const shown = request === undefined ? rest : { stop_reason, request_id, message: fieldOf(request, 'message') };
  return shortened(JSON.stringify(shown), 200);
}
