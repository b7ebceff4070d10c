// What a turn costs that makes two tool calls in one step, one of which needs an approval.
import { percentile } from '../test/support/flood.ts';
import { call, createSessions, type Engine, type Parley } from './parley.ts';
import { cpuMs } from './processes.ts';

const text = '/tool files {"operation":"list"}\n/tool files {"operation":"write","path":"note.txt","content":"hello"}';
const turns = 40;

export async function measureApprovals(engines: Engine[]): Promise<string> {
  const lines = ['## A turn with two tool calls and one approval, one client', '', '| what | p50 ms | CPU ms/turn |', '|---|---|---|'];
  for (const { name, parley, pids } of engines) {
    const [id = ''] = await createSessions(parley, 1);
    for (let warmUp = 0; warmUp < 10; warmUp += 1) await runTurn(parley, id);
    const before = cpuMs(pids);
    const times: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      const begun = performance.now();
      await runTurn(parley, id);
      times.push(performance.now() - begun);
    }
    lines.push(`| ${name} | ${percentile(times, 0.5).toFixed(1)} | ${((cpuMs(pids) - before) / turns).toFixed(2)} |`);
  }
  return `${lines.join('\n')}\n`;
}

async function runTurn(parley: Parley, sessionId: string): Promise<void> {
  const path = `/v1/sessions/${sessionId}`;
  const { pending_input: pending } = await call<{ pending_input: { request_id: string } }>(parley, `${path}/messages`, { text });
  await call(parley, `${path}/inputs/${pending.request_id}`, { decision: 'approve_once' }, 'PUT');
}
