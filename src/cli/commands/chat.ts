import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { errorMessage } from '../../errors.ts';
import { agentRoutes, call, stream } from '../api.ts';

interface Frame {
  type: string;
  data: { step?: number; part?: { text?: string; tool?: string; state?: string }; request_id?: string; message?: string; code?: string };
}

export function chatCommand(program: Command): void {
  program
    .command('chat [agent]')
    .description('chat with an agent, or the default one; answer approvals with y (once), a (for the session) or n')
    .option('--session <id>', 'continue this session, or create it with this id')
    .option('--sub-agent <name>', 'sub-agent of the release that should answer')
    .option('--thinking', "show the model's reasoning")
    .action(async (agent: string | undefined, options: { session?: string; subAgent?: string; thinking?: boolean }) => {
      const sessions = `${agent === undefined ? '/v1' : await agentRoutes(agent)}/sessions`;
      const session = await call<{ id: string }>('POST', sessions, options.session === undefined ? {} : { session_id: options.session });
      const body = { thinking: options.thinking ?? false, ...(options.subAgent === undefined ? {} : { agent: options.subAgent }) };
      process.stdout.write(`Session ${session.id}. Press Ctrl-D to quit.\n`);
      const terminal = createInterface({ input: process.stdin });
      // One reader for messages and answers, so that lines typed ahead are not lost.
      const lines = terminal[Symbol.asyncIterator]();
      for (let line = await ask(lines, '> '); line !== undefined; line = await ask(lines, '> ')) {
        if (line.trim() !== '') await talk(lines, `${sessions}/${session.id}`, { text: line, ...body });
      }
      process.stdout.write('\n');
      terminal.close();
    });
}

async function ask(lines: AsyncIterator<string>, question: string): Promise<string | undefined> {
  process.stdout.write(question);
  const { value, done } = await lines.next();
  return done ? undefined : value;
}

async function talk(
  lines: AsyncIterator<string>,
  session: string,
  message: { text: string; agent?: string; thinking: boolean },
): Promise<void> {
  let request: string | undefined;
  let step: number | undefined;
  try {
    for await (const event of stream('POST', `${session}/messages`, { ...message, stream: true })) {
      const frame = JSON.parse(event.data) as Frame;
      // Its process died and another writes it again, in other words: what is on the screen of it does not count.
      if (frame.type === 'step_start' && frame.data.step === step) process.stdout.write('\n[the answer starts over]\n');
      step = frame.data.step ?? step;
      request = show(frame) ?? request;
    }
    while (request !== undefined) request = await resolve(lines, session, request);
  } catch (error) {
    process.stdout.write(`\n! ${errorMessage(error)}\n`);
  }
}

/** Asks until the answer is one, or the input ends and the request stays pending; returns the next question, if the turn has another. */
async function resolve(lines: AsyncIterator<string>, session: string, requestId: string): Promise<string | undefined> {
  const decisions: Record<string, string> = { y: 'approve_once', a: 'approve_session', n: 'deny' };
  let decision: string | undefined;
  while (decision === undefined) {
    const answer = await ask(lines, 'Allow? [y/a/n] ');
    if (answer === undefined) return undefined;
    decision = decisions[answer.trim().toLowerCase()];
  }
  const { events } = await call<{ events: Frame[] }>('PUT', `${session}/inputs/${requestId}`, { decision });
  let next: string | undefined;
  for (const event of events) next = show(event) ?? next;
  return next;
}

/** Writes a frame; returns the request that it asks about. */
function show({ type, data }: Frame): string | undefined {
  if (type === 'text' || type === 'reasoning') process.stdout.write(data.part?.text ?? '');
  if (type === 'tool_use' && data.part?.state !== 'running') process.stdout.write(`\n[${data.part?.tool}: ${data.part?.state}]\n`);
  if (type === 'error') process.stdout.write(`\n! ${data.code}: ${data.message}\n`);
  if (type === 'done') process.stdout.write('\n');
  if (type !== 'input_required') return undefined;
  process.stdout.write(`\n${data.message}\n`);
  return data.request_id;
}
