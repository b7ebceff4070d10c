// `node bench/fan-out.ts`: what it costs to send a session's log to 500 readers at once, and a long log to one reader.
import { percentile } from '../test/support/flood.ts';
import { createManagedSession, managedPath, openStream } from './managed-session.ts';
import { call, type Engine, type Parley, startParley } from './parley.ts';
import { cpuMs } from './processes.ts';

if (import.meta.main) {
  const parley = await startParley(undefined);
  process.stdout.write(await measureFanOut([{ name: 'Parley on PGlite', parley, pids: [parley.pid] }]));
  await parley.stop();
}

export async function measureFanOut(engines: Engine[]): Promise<string> {
  const fanOut = [
    '## One session followed by 500 readers',
    '',
    '| what | frames/s | last reader p50 ms | p99 ms | CPU µs/frame |',
    '|---|---|---|---|---|',
  ];
  const replay = ['## Replay of a log of 2,000 events', '', '| what | events/s | MB/s | CPU µs/event |', '|---|---|---|---|'];
  for (const { name, parley, pids } of engines) {
    fanOut.push(`| ${name} | ${(await followTogether(parley, pids, 500, 40)).join(' | ')} |`);
    replay.push(`| ${name} | ${(await replayAgain(parley, pids, 500, 20)).join(' | ')} |`);
  }
  return [...fanOut, '', ...replay, ''].join('\n');
}

/** Each turn adds four events. Its latency is the time from the post until the last reader has got the turn's end. */
async function followTogether(parley: Parley, pids: number[], readers: number, turns: number): Promise<number[]> {
  const id = await createManagedSession(parley.url);
  let ended = 0;
  let notify = () => {};
  const sockets = await Promise.all(
    Array.from({ length: readers }, () =>
      openStream(parley.url, id, (text) => {
        ended += text.split('event: session.status_idle').length - 1;
        if (ended % readers === 0) notify();
      }),
    ),
  );
  const times: number[] = [];
  const cpu = cpuMs(pids);
  const begun = performance.now();
  for (let turn = 1; turn <= turns; turn += 1) {
    const posted = performance.now();
    const all = new Promise<void>((resolve) => {
      notify = () => ended === turn * readers && resolve();
    });
    await call(parley, `${managedPath}/${id}/events`, { type: 'user.message', text: '/words 64' });
    await all;
    times.push(performance.now() - posted);
  }
  const seconds = (performance.now() - begun) / 1000;
  const frames = readers * turns * 4;
  const used = cpuMs(pids) - cpu;
  for (const socket of sockets) socket.destroy();
  return [Math.round(frames / seconds), percentile(times, 0.5), percentile(times, 0.99), Math.round((used * 1000) / frames)];
}

async function replayAgain(parley: Parley, pids: number[], turns: number, times: number): Promise<number[]> {
  const id = await createManagedSession(parley.url);
  for (let turn = 0; turn < turns; turn += 1) await call(parley, `/v1/sessions/${id}/messages`, { text: '/words 64' });
  const cpu = cpuMs(pids);
  const begun = performance.now();
  let bytes = 0;
  for (let time = 0; time < times; time += 1) {
    let tail = '';
    const replayed = Promise.withResolvers<void>();
    const socket = await openStream(parley.url, id, (text) => {
      bytes += text.length;
      tail = tail.slice(-64) + text;
      if (tail.includes(`id: ${turns * 4}\n`)) replayed.resolve();
    });
    await replayed.promise;
    socket.destroy();
  }
  const seconds = (performance.now() - begun) / 1000;
  const events = turns * 4 * times;
  return [Math.round(events / seconds), Math.round(bytes / seconds / 1e5) / 10, Math.round(((cpuMs(pids) - cpu) * 1000) / events)];
}
