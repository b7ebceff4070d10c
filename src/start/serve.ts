import cluster from 'node:cluster';
import { once } from 'node:events';
import { Server as Listener } from 'node:net';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createApp } from '../app.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { limitConnections } from '../load/limit-connections.ts';
import { listenMore } from '../load/listen-more.ts';
import type { Server } from '../surfaces/shared/fastify.ts';
import { watchDescriptors } from '../telemetry/descriptors.ts';
import { logConsole } from '../telemetry/logger.ts';
import { createContext } from './create-context.ts';
import { tryAddress, unusableAddress } from './try-address.ts';
import { welcome } from './welcome.ts';
import { askForReplacement, serving, stopSignals } from './workers.ts';

/** How long open connections may delay the closing of the server. */
const connectionsMs = 2_000;
/** Long enough for a load balancer to send another request on the connections that it keeps open, and learn that they close. */
const keepAliveEndMs = 1_000;
/** How long closing may take after the drain: about as much as orchestrators allow beyond it. */
const closingMs = 10_000;
/** Whether several sockets can listen on the port. A worker needs no more than one: the primary process accepts, and does nothing else. */
const canShareAddress = process.platform === 'linux' && cluster.isPrimary;
/**
 * Connections that wait to be accepted, at each socket; the kernel drops any further ones, which their clients believe to be open. It
 * divides connections among the sockets at random, so that together they take more than a single one.
 */
const backlog = canShareAddress ? 512 : 4_096;

/** The first worker is the first to serve, and the one that makes the first start's keys: the others start once it serves. */
const isFirstProcess = cluster.isPrimary || cluster.worker?.id === 1;

/** Starts the server; a signal drains and ends it. */
export async function serve(config: Config): Promise<void> {
  // Process 1 of a container gets only signals that it has a handler for: without this one, it could not be stopped while it starts.
  if (process.pid === 1) for (const signal of stopSignals) process.on(signal, endStarting);
  if (cluster.isPrimary) await tryAddress(config);
  const context = await createContext(config);
  logConsole(context.logger);
  const { server, listeners } = await listen(context).catch(async (error: unknown) => {
    await context.close();
    throw error;
  });

  watchDescriptors(context.logger);

  let stopping = false;
  const hurry = new AbortController();
  const { promise: over, resolve: endDrain } = Promise.withResolvers<void>();
  const stop = async (signal: NodeJS.Signals) => {
    // Ctrl-C, or a terminal that was closed: running turns are not waited for, or no longer.
    if (signal !== 'SIGTERM') hurry.abort();
    const milliseconds = hurry.signal.aborted ? 0 : config.PARLEY_DRAIN_SECONDS * 1_000;
    setTimeout(endDrain, milliseconds).unref();
    // If closing hangs, as when the database does not answer, the process just ends. As after a kill, nothing acknowledged is lost.
    setTimeout(() => endUnclosed(context), milliseconds + closingMs).unref();
    if (stopping) return;
    stopping = true;
    context.logger.info({ signal }, 'stopping');
    if (await askForReplacement()) {
      stopListening(server);
      await Promise.race([context.runner.idle(), over]);
      await endKeepAlive(listeners, hurry.signal);
    }
    await context.drain(over);
    await endKeepAlive(listeners, hurry.signal);
    // A connection on which no request has come yet counts as busy: without this, closing would wait for its timeout.
    const cut = setTimeout(() => server.server.closeAllConnections(), connectionsMs);
    const [, ...more] = listeners;
    await Promise.all([server.close(), ...more.map((listener) => once(listener.close(), 'close'))]);
    clearTimeout(cut);
    await context.close();
    // The open channel to the primary process would keep a worker running.
    if (process.connected) process.disconnect?.();
  };
  // node:cluster ends a worker at once when the primary process is gone: this logs why.
  cluster.worker?.on('disconnect', () => {
    if (!stopping) context.logger.error('the process that started this worker is gone: ending');
  });
  for (const signal of stopSignals) process.off(signal, endStarting).on(signal, stop);
  // If this is a worker, tells the primary process.
  process.send?.(serving);
  // An output that nobody reads, or a full disk, must not end the process.
  process.stdout.on('error', () => {});
  if (isFirstProcess) process.stdout.write(welcome(context, portOf(server.server.address()) ?? config.PORT));
  else context.logger.info('ready');
}

/**
 * Waits until clients have closed their idle connections, for a moment. A load balancer may be sending a request on one right now, and
 * may not repeat it if the connection is closed. Until then requests are answered, with `Connection: close`.
 */
async function endKeepAlive(listeners: Listener[], hurry: AbortSignal): Promise<void> {
  const end = performance.now() + keepAliveEndMs;
  const counts = () => Promise.all(listeners.map((listener) => promisify(listener.getConnections.bind(listener))()));
  while (!hurry.aborted && performance.now() < end && (await counts()).some((count) => count > 0)) await sleep(20);
}

/**
 * New connections go to the other workers from now on. Requests on open connections are still answered as usual, because the
 * installation is not stopping. `server.close` of node:http would close idle connections at once; that of node:net does not.
 */
function stopListening({ server }: Server): void {
  Listener.prototype.close.call(server);
}

function endStarting(signal: NodeJS.Signals): void {
  process.exit(128 + constants.signals[signal]);
}

function endUnclosed({ logger }: Context): void {
  logger.error('could not close everything in time: ending');
  process.exit(1);
}

async function listen(context: Context): Promise<{ server: Server; listeners: Listener[] }> {
  const { config } = context;
  const server = await createApp(context);
  limitConnections(server.server, context.logger);
  // Once more: a process that has taken the port meanwhile, and allows it to be shared, would get half of the connections.
  if (canShareAddress) await tryAddress(config);
  const address = { host: config.HOST, port: config.PORT, backlog, reusePort: canShareAddress };
  await server.listen(address).catch((error: unknown) => {
    throw unusableAddress(error, config);
  });
  const port = portOf(server.server.address()) ?? config.PORT;
  const more = canShareAddress ? await listenMore(server.server, { ...address, port }) : [];
  return { server, listeners: [server.server, ...more] };
}

function portOf(address: string | { port: number } | null): number | undefined {
  return typeof address === 'object' ? address?.port : undefined;
}
