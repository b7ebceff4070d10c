// A chat in the terminal: streams the answers, and asks you before a tool runs.
//   PARLEY_API_KEY=svc_live_... npm exec -- node examples/node/chat.ts
import { createInterface } from 'node:readline';
import { ParleyClient, type TurnEvent } from '../../client/src/index.ts';

const client = new ParleyClient({
  baseUrl: process.env.PARLEY_URL ?? 'http://127.0.0.1:8080',
  apiKey: process.env.PARLEY_API_KEY,
  agent: 'demo/assistant',
});
// One reader, from the first moment on: lines that are piped in or typed ahead are not lost.
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const session = await client.sessions.create({ metadata: { end_user_id: 'terminal' } });
console.log(`Session ${session.id}. Try: /tool bash {"command":"echo hello > note.txt"}`);
for (;;) {
  const text = await ask('\n> ');
  if (text.trim() === '') continue;
  const steps = new Set<number>();
  for await (const event of client.messages.stream(session.id, text)) {
    // A step that begins anew after a crash of the server: what is on the screen of it does not count.
    if (event.type === 'step_start' && steps.has(event.data.step)) console.log('\n[once more]');
    if (event.type === 'step_start') steps.add(event.data.step);
    await show(event);
  }
}

async function show(event: TurnEvent): Promise<void> {
  if (event.type === 'text') process.stdout.write(event.data.part.text);
  if (event.type === 'error') console.log(`\n[${event.data.code}] ${event.data.message}`);
  if (event.type !== 'input_required') return;
  const { request_id, message, options } = event.data;
  const answer = await ask(`\n${message}\n${options.map((option, index) => `${index + 1} ${option}`).join('   ')}\n? `);
  const decision = options[Number(answer) - 1] ?? 'deny';
  const { events } = await client.inputs.resolve(session.id, request_id, decision);
  for (const next of events) await show(next);
}

async function ask(question: string): Promise<string> {
  process.stdout.write(question);
  const line = await lines.next();
  return line.done ? process.exit() : line.value;
}
