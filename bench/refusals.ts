// `node bench/refusals.ts`: the CPU time of one refusal in an overload, by node:http and ahead of it. It starts itself again as the server.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import fastify from 'fastify';
import { RateLimit } from '../src/load/rate-limit.ts';
import { defaultRoom, WaitingRoom } from '../src/load/waiting-room.ts';
import { refuseEarly } from '../src/surfaces/shared/server/early-refusals.ts';
import { handleError } from '../src/surfaces/shared/server/handle-error.ts';
import { rememberResponses } from '../src/surfaces/shared/server/newest-response.ts';
import { Refusals } from '../src/surfaces/shared/server/refusals.ts';
import { createLogger } from '../src/telemetry/logger.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { cpuMs } from './processes.ts';

const connections = 1_000;
const perSecond = 3_000;
const seconds = 5;
const body = '{"messages":[{"role":"user","content":"Hello"}]}';
const head = 'POST / HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer bench\r\ncontent-type: application/json\r\n';
const request = `${head}content-length: ${body.length}\r\n\r\n${body}`;

if (process.argv[2] === undefined) {
  for (const mode of ['http', 'early', 'http', 'early', 'http', 'early'])
    process.stdout.write(`${mode}: ${(await measureRefusals(mode)).toFixed(3)} ms\n`);
} else {
  process.send?.(await startFullServer(process.argv[2] === 'early'));
}

/** A server without a place for anybody. Returns its port. */
async function startFullServer(isEarly: boolean): Promise<number> {
  const waitingRoom = new WaitingRoom({ ...defaultRoom, places: 0, maxLine: 1 });
  void waitingRoom.enter(1, () => false);
  const logger = createLogger('silent');
  const refusals = new Refusals({ rateLimit: new RateLimit(0, 0), waitingRoom, metrics: createMetrics(), logger });
  const http = process.getBuiltinModule('node:http');
  const server = fastify({
    serverFactory: (serve) => http.createServer((incoming, response) => refusals.answer(incoming, response) || serve(incoming, response)),
  });
  rememberResponses(server.server);
  if (isEarly) refuseEarly(server.server, { refusals, isBusy: () => true, isStaying: () => true });
  server.setErrorHandler(handleError(logger));
  server.post('/', (incoming) => {
    const refusal = waitingRoom.refusalOf(1);
    if (refusal === undefined) throw new Error('there is room');
    refusals.remember(incoming, 1, refusal);
    throw refusal;
  });
  return Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port);
}

async function measureRefusals(mode: string): Promise<number> {
  const child = fork(fileURLToPath(import.meta.url), [mode]);
  const [port] = (await once(child, 'message')) as [number];
  const idle: Socket[] = [];
  let refused = 0;
  for (let index = 0; index < connections; index += 1) {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('data', () => {
      refused += 1;
      idle.push(socket);
    });
    socket.on('error', (error) => {
      if (!child.killed) throw error;
    });
    socket.write(request);
  }
  while (idle.length < connections) await sleep(10);
  const send = async () => {
    const begun = performance.now();
    for (let sent = 0; performance.now() < begun + seconds * 1000; await sleep(5)) {
      const due = ((performance.now() - begun) / 1000) * perSecond;
      for (; sent < due && idle.length > 0; sent += 1) idle.shift()?.write(request);
    }
    while (idle.length < connections) await sleep(10);
  };
  await send();
  const before = { cpu: cpuMs([child.pid ?? 0]), refused };
  await send();
  const perRefusal = (cpuMs([child.pid ?? 0]) - before.cpu) / (refused - before.refused);
  child.kill();
  return perRefusal;
}
