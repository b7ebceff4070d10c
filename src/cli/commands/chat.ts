import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { errorMessage } from '../../errors.ts';
import { agentRoutes, call, stream } from '../api.ts';
import { ignoreRepeated } from '../ignore-repeated.ts';
import { harmless, oneLine } from '../print.ts';

interface Frame {
  type: string;
  data: { step?: number; part?: { text?: string; tool?: string; state?: string }; request_id?: string; message?: string; code?: string };
}

interface Session {
  /** The path of its native routes. */
  path: string;
  id: string;
  /** Undefined for the default agent. */
  agent: string | undefined;
}

export function chatCommand(program: Command): void {
  program
    .command('chat [agent]')
    .description('chat with an agent, or the default one; answer approvals with y (once), a (for the session) or n; Ctrl-C stops an answer')
    .option('--session <id>', 'continue this session, or create it with this id')
    .option('--sub-agent <name>', 'sub-agent of the release that should answer')
    .option('--thinking', "show the model's reasoning")
    .action(async (agent: string | undefined, options: { session?: string; subAgent?: string; thinking?: boolean }) => {
      const sessions = `${agent === undefined ? '/v1' : await agentRoutes(agent)}/sessions`;
      const opened = await call<{ id: string; pending_input: Frame['data'] | null }>(
        'POST',
        sessions,
        options.session === undefined ? {} : { session_id: options.session },
      );
      const session = { path: `${sessions}/${opened.id}`, id: opened.id, agent };
      const body = { thinking: options.thinking ?? false, ...(options.subAgent === undefined ? {} : { agent: options.subAgent }) };
      note(`Session ${session.id}. Press Ctrl-D to quit.\n`);
      const terminal = createInterface({ input: process.stdin });
      // Messages and decisions are read by one iterator, so that lines typed ahead are not lost.
      const lines = terminal[Symbol.asyncIterator]();
      // An earlier chat may have left a request unanswered, and the session accepts no message before its answer.
      if (opened.pending_input !== null) await answerRequests(lines, session, show({ type: 'input_required', data: opened.pending_input }));
      for (let line = await ask(lines, '> '); line !== undefined; line = await ask(lines, '> ')) {
        if (line.trim() !== '') await sendMessage(lines, session, { text: line, ...body });
      }
      note('\n');
      terminal.close();
    });
}

/** To standard error: standard output has only what the agent says, so that a script can use it. */
function note(text: string): void {
  process.stderr.write(harmless(text));
}

function say(text: string): void {
  process.stdout.write(process.stdout.isTTY ? harmless(text) : text);
}

/** At a terminal the chat goes on after a failure; a script learns of it by the exit code. */
function fail(message: string): void {
  note(`\n! ${oneLine(message)}\n`);
  if (!process.stdin.isTTY) process.exitCode = 1;
}

/** While an answer is awaited, the first Ctrl-C stops it on the server. A second one ends the program, as Ctrl-C does otherwise. */
async function stoppable(session: Session, answer: () => Promise<void>): Promise<void> {
  const stop = () => {
    ignoreRepeated(['SIGINT']);
    process.off('SIGINT', stop);
    interrupt(session).catch((error: unknown) => fail(`could not stop the answer: ${errorMessage(error)}`));
  };
  process.on('SIGINT', stop);
  await answer().finally(() => process.off('SIGINT', stop));
}

async function interrupt({ agent, id }: Session): Promise<void> {
  await call('POST', `${await agentRoutes(agent)}/managed-agents/sessions/${id}/events`, { type: 'user.interrupt' });
}

function describeBreak({ agent = '<agent>', id }: Session, error: unknown): Error {
  return new Error(`the server closed the stream; the answer goes on there, see: parley sessions show ${agent} ${id}`, { cause: error });
}

async function ask(lines: AsyncIterator<string>, question: string): Promise<string | undefined> {
  note(question);
  const { value, done } = await lines.next();
  return done ? undefined : value;
}

/** Sends a message and prints the answer, then asks the person about the requests of its turn. */
async function sendMessage(
  lines: AsyncIterator<string>,
  session: Session,
  message: { text: string; agent?: string; thinking: boolean },
): Promise<void> {
  let requestId: string | undefined;
  try {
    await stoppable(session, async () => {
      let step: number | undefined;
      const body = { ...message, stream: true };
      for await (const event of stream('POST', `${session.path}/messages`, body, (error) => describeBreak(session, error))) {
        const frame = JSON.parse(event.data) as Frame;
        // The same step begins again: its process died, and another writes the answer anew. What was printed no longer counts.
        if (frame.type === 'step_start' && frame.data.step === step) note('\n[the answer starts over]\n');
        step = frame.data.step ?? step;
        requestId = show(frame) ?? requestId;
      }
    });
  } catch (error) {
    return fail(errorMessage(error));
  }
  await answerRequests(lines, session, requestId);
}

/** Asks the person about a request, and about every further request of its turn. */
async function answerRequests(lines: AsyncIterator<string>, session: Session, firstId: string | undefined): Promise<void> {
  try {
    for (let requestId = firstId; requestId !== undefined; ) requestId = await answerRequest(lines, session, requestId);
  } catch (error) {
    fail(errorMessage(error));
  }
}

/** Asks until there is a decision; if the input ends or Ctrl-C quits, the request stays open. Returns the id of the turn's next one, if any. */
async function answerRequest(lines: AsyncIterator<string>, session: Session, requestId: string): Promise<string | undefined> {
  const decisions: Record<string, string> = { y: 'approve_once', a: 'approve_session', n: 'deny' };
  let decision: string | undefined;
  while (decision === undefined) {
    const quit = () => {
      failUnanswered(session);
      process.exit(130);
    };
    process.on('SIGINT', quit);
    const answer = await ask(lines, 'Allow? [y/a/n] ').finally(() => process.off('SIGINT', quit));
    if (answer === undefined) return failUnanswered(session);
    decision = decisions[answer.trim().toLowerCase()];
  }
  let nextId: string | undefined;
  await stoppable(session, async () => {
    const { events } = await call<{ events: Frame[] }>('PUT', `${session.path}/inputs/${requestId}`, { decision });
    for (const event of events) nextId = show(event) ?? nextId;
  });
  return nextId;
}

/** Without the exit code, a script would take the text so far for the whole answer; a person's screen has moved on from the id. */
function failUnanswered({ agent, id }: Session): undefined {
  const again = ['parley chat', ...(agent === undefined ? [] : [agent]), '--session', id].join(' ');
  fail(`the request is still open; answer it with: ${again}`);
}

/** Whether the line on the terminal is one of reasoning, in which the answer would go on. */
let isThinking = false;

/** Prints a frame. Returns the id of the request, if the frame asks for a decision. */
function show({ type, data }: Frame): string | undefined {
  if (type === 'text' && isThinking) note('\n');
  isThinking = type === 'reasoning';
  if (type === 'text') say(data.part?.text ?? '');
  if (type === 'reasoning') note(data.part?.text ?? '');
  if (type === 'tool_use' && data.part?.state !== 'running') note(`\n[${data.part?.tool}: ${data.part?.state}]\n`);
  if (type === 'error') fail(`${data.code}: ${data.message}`);
  if (type === 'done') say('\n');
  if (type !== 'input_required') return undefined;
  note(`\n${data.message}\n`);
  return data.request_id;
}
