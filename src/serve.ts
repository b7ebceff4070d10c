import cluster from 'node:cluster';
import { once } from 'node:events';
import { createServer, Server as NetServer } from 'node:net';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createApp } from './app.ts';
import { type Config, ConfigError } from './config.ts';
import type { Context } from './context.ts';
import { createContext } from './create-context.ts';
import { errorCode, errorMessage } from './errors.ts';
import type { Server } from './surfaces/shared/fastify.ts';
import { watchDescriptors } from './telemetry/descriptors.ts';
import { logConsole } from './telemetry/logger.ts';
import { welcome } from './welcome.ts';
import { askForAnother, serving, stopSignals } from './workers.ts';

const patienceMs = 2_000;
/** Long enough for a balancer to use again what it has in use. */
const lettingGoMs = 1_000;
/** Closing takes a moment; an orchestrator that waits for the drain gives about this much beyond it. */
const closingMs = 10_000;
/** Connections that wait to be taken; beyond them the kernel drops what its clients think is open. node:net asks for 511. */
const backlog = 4_096;

/** Starts the server; a signal drains and ends it. */
export async function serve(config: Config): Promise<void> {
  // The first process of a container gets only the signals that it handles: one that is still starting ends as any other would.
  if (process.pid === 1) for (const signal of stopSignals) process.on(signal, endStarting);
  await tryAddress(config);
  const context = await createContext(config);
  logConsole(context.logger);
  const server = await listen(context).catch(async (error: unknown) => {
    await context.close();
    throw error;
  });

  watchDescriptors(context.logger);

  let stopping = false;
  const hurry = new AbortController();
  const { promise: over, resolve: endDrain } = Promise.withResolvers<void>();
  const stop = async (signal: NodeJS.Signals) => {
    // Ctrl-C, or a terminal that was closed: nobody waits for turns, nor goes on doing so.
    if (signal !== 'SIGTERM') hurry.abort();
    const milliseconds = hurry.signal.aborted ? 0 : config.PARLEY_DRAIN_SECONDS * 1_000;
    setTimeout(endDrain, milliseconds).unref();
    // What cannot be closed, as beside a database that does not answer, is left as a kill would leave it: nothing acknowledged is lost.
    setTimeout(() => endUnclosed(context), milliseconds + closingMs).unref();
    if (stopping) return;
    stopping = true;
    context.logger.info({ signal }, 'stopping');
    if (await askForAnother()) {
      stopListening(server);
      await Promise.race([context.runner.idle(), over]);
      await letGo(server, hurry.signal);
    }
    await context.drain(over);
    await letGo(server, hurry.signal);
    // A connection that was opened ahead of a request counts as busy: it would be waited for until its timeout.
    const cut = setTimeout(() => server.server.closeAllConnections(), patienceMs);
    await server.close();
    clearTimeout(cut);
    await context.close();
    // The channel to the primary process would keep a worker running.
    if (process.connected) process.disconnect?.();
  };
  // A worker ends at once when the process that started it is gone, which has no time to say so itself.
  cluster.worker?.on('disconnect', () => {
    if (!stopping) context.logger.error('the process that started this worker is gone: ending');
  });
  for (const signal of stopSignals) process.off(signal, endStarting).on(signal, stop);
  // To the process that started this one as a worker.
  process.send?.(serving);
  // Like the log: nobody may be reading, or its disk be full.
  process.stdout.on('error', () => {});
  process.stdout.write(welcome(context, portOf(server.server.address()) ?? config.PORT));
}

/**
 * A balancer may just be sending on a connection that it keeps, and what is lost with that it may not send again. So each request
 * is still answered, and told that its connection closes; those on which nobody asks are closed without.
 */
async function letGo({ server }: Server, hurry: AbortSignal): Promise<void> {
  const end = performance.now() + lettingGoMs;
  const countConnections = promisify(server.getConnections.bind(server));
  while (!hurry.aborted && performance.now() < end && (await countConnections()) > 0) await sleep(20);
}

/**
 * The others behind the port get what comes from now on. What still comes on a connection of this one is answered as ever: the
 * server as a whole is not stopping. Its own `close` would cut at once those on which nobody asks just now.
 */
function stopListening({ server }: Server): void {
  NetServer.prototype.close.call(server);
}

function endStarting(signal: NodeJS.Signals): void {
  process.exit(128 + constants.signals[signal]);
}

function endUnclosed({ logger }: Context): void {
  logger.error('could not close everything in time: ending');
  process.exit(1);
}

/** Before anything is written: a first start creates keys that are printed once, and must not fail after that for want of a port. */
async function tryAddress(config: Config): Promise<void> {
  const probe = createServer().listen(config.PORT, config.HOST);
  await once(probe, 'listening').catch((error: unknown) => {
    throw unusableAddress(error, config);
  });
  await once(probe.close(), 'close');
}

async function listen(context: Context): Promise<Server> {
  const { config } = context;
  const server = await createApp(context);
  await server.listen({ host: config.HOST, port: config.PORT, backlog }).catch((error: unknown) => {
    throw unusableAddress(error, config);
  });
  return server;
}

/** Says which setting an address that cannot be listened on comes from. */
function unusableAddress(error: unknown, { HOST, PORT }: Config): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE' || code === 'EACCES')
    return new Error(`PORT: ${PORT} is not available (${errorMessage(error)})`, { cause: error });
  return new ConfigError(`HOST: cannot listen on ${HOST} (${errorMessage(error)})`, { cause: error });
}

function portOf(address: string | { port: number } | null): number | undefined {
  return typeof address === 'object' ? address?.port : undefined;
}
