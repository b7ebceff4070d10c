// A turn that acts: two tool calls in one step, one of which asks first.
import { headers, type Parley } from './parley.ts';
import { cpuMs } from './processes.ts';

const text = '/tool files {"operation":"list"}\n/tool files {"operation":"write","path":"note.txt","content":"hello"}';
const turns = 40;

export async function measureApprovals(engines: { name: string; parley: Parley; pids: number[] }[]): Promise<string> {
  const lines = ['## A turn with two tool calls and one approval, one client', '', '| what | p50 ms | CPU ms/turn |', '|---|---|---|'];
  for (const { name, parley, pids } of engines) {
    const { id } = await call(parley, 'POST', '/v1/sessions', {});
    for (let warm = 0; warm < 10; warm += 1) await actOnce(parley, id);
    const before = cpuMs(pids);
    const times: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      const begun = performance.now();
      await actOnce(parley, id);
      times.push(performance.now() - begun);
    }
    const p50 = times.toSorted((left, right) => left - right)[turns >> 1] ?? 0;
    lines.push(`| ${name} | ${p50.toFixed(1)} | ${((cpuMs(pids) - before) / turns).toFixed(2)} |`);
  }
  return `${lines.join('\n')}\n`;
}

async function actOnce(parley: Parley, sessionId: string): Promise<void> {
  const { pending_input: pending } = await call(parley, 'POST', `/v1/sessions/${sessionId}/messages`, { text });
  await call(parley, 'PUT', `/v1/sessions/${sessionId}/inputs/${pending.request_id}`, { decision: 'approve_once' });
}

async function call(
  parley: Parley,
  method: string,
  path: string,
  body: unknown,
): Promise<{ id: string; pending_input: { request_id: string } }> {
  const response = await fetch(parley.url + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { id: string; pending_input: { request_id: string } };
}
