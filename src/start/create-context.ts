import { credentialReader } from '../accounts/credential-for.ts';
import { Directory } from '../accounts/directory.ts';
import { loadSecretKey } from '../accounts/secret-key.ts';
import { seedInstallation } from '../accounts/seed.ts';
import { SessionTokens } from '../accounts/session-tokens.ts';
import { SignIn } from '../accounts/sign-in.ts';
import { SigningKeys } from '../accounts/signing-keys.ts';
import { type Clock, systemClock } from '../clock.ts';
import { type Config, describeIdleSettings } from '../config.ts';
import type { Context } from '../context.ts';
import { openBus } from '../database/bus.ts';
import { describeNewer, migrate } from '../database/migrate.ts';
import { openDatabase } from '../database/open.ts';
import { createDestinations } from '../destination/destinations.ts';
import { newId } from '../ids.ts';
import { createLazyMcpConnections } from '../instances/lazy-mcp.ts';
import { Uploads } from '../instances/upload.ts';
import { RateLimit } from '../load/rate-limit.ts';
import { WaitingRoom } from '../load/waiting-room.ts';
import { dropLeftovers } from '../session/drop-sessions.ts';
import { Feed } from '../session/feed.ts';
import { SessionLog } from '../session/log.ts';
import { NewSessions } from '../session/new-sessions.ts';
import { createLogger } from '../telemetry/logger.ts';
import { createMetrics } from '../telemetry/metrics.ts';
import { watchProcess } from '../telemetry/process-metrics.ts';
import { createTracing } from '../telemetry/tracing.ts';
import { createSettings } from '../turn/create-settings.ts';
import { createMcpProxy } from '../turn/mcp-proxy.ts';
import { joinPeers } from '../turn/peers.ts';
import { Turns } from '../turn/turns.ts';
import { createWarming } from '../turn/warming.ts';
import { maxFileBytes } from '../workspace-limits.ts';
import { createCourier, createGateway, createLeases, createMaterializer, createRunner } from './context-parts.ts';
import { sweepExpiredRows } from './expired-rows.ts';

/** Creates everything that lives as long as the process. It is closed in the reverse order, even when the start fails halfway. */
export async function createContext(config: Config, clock: Clock = systemClock): Promise<Context> {
  await using opened = new AsyncDisposableStack();
  const logger = createLogger(config.PARLEY_LOG_LEVEL);
  const database = await openDatabase(config, logger);
  opened.defer(() => database.close());
  const foreign = await migrate(database, logger);
  const processId = newId('proc_');
  const directory = new Directory(database, processId);
  opened.defer(() => directory.close());
  const bus = await openBus(database, config.REDIS_URL, logger);
  opened.defer(() => bus.close());
  // What follows makes keys. Those shown once are shown at the end of this start: a Redis that is not there must have stopped it by now.
  const secretKey = await loadSecretKey(config, database);
  const secrets = secretKey.box;
  const seeded = await seedInstallation(database, config, clock);
  const notes = [secretKey.warning, seeded.warning, describeNewer(foreign)].filter((text) => text !== undefined);
  const warnings = [...describeIdleSettings(config), ...notes];
  const log = new SessionLog(database, processId, config.PARLEY_LEASE_MS, bus.announcesWrites);
  const newSessions = new NewSessions(database);
  const feed = new Feed();
  const rateLimit = new RateLimit(config.PARLEY_RATE_LIMIT_RPS, config.PARLEY_RATE_LIMIT_BURST);
  const waitingRoom = new WaitingRoom();
  const destinations = createDestinations(config);
  const credentialFor = credentialReader(directory, secrets);
  const tracing = await createTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, logger);
  opened.defer(() => tracing.close());
  const mcp = createLazyMcpConnections({ fetch: destinations.upstreams.fetch });
  opened.defer(() => mcp.close());
  const { settings, ...tools } = createSettings({ config, database, directory, destinations, mcp, credentialFor, tracing });
  opened.defer(() => tools.close());
  const materializer = createMaterializer(config, { database, directory, destinations, credentialFor, logger });
  opened.defer(() => materializer.close());
  const metrics = createMetrics();
  const runner = createRunner(config, { database, directory, processId, log, feed, logger, settings, tracing, metrics });
  const limits = { maxTurns: config.PARLEY_MAX_TURNS, reservationTokens: config.PARLEY_TURN_RESERVATION_TOKENS };
  const turns = new Turns({ database, log, feed, runner, settings, directory, limits });
  const courier = createCourier(config, { database, processId, clock, logger, secrets, destinations });
  opened.defer(() => courier.stop());
  const peerParts = { db: database.db, feed, log, runner, turns, directory, settings, courier, rateLimit, logger };
  const peers = await joinPeers(bus, processId, peerParts);
  opened.defer(() => peers.close());
  watchProcess(metrics, { runner, feed, waitingRoom, log, courier, database, bus });
  await dropLeftovers(database.db, feed).catch((error: unknown) => logger.warn({ err: error }, 'could not drop old sessions; will retry'));
  materializer.start();
  const sweeper = sweepExpiredRows(database.db, feed, logger, () => turns.stopAbandoned());
  opened.defer(() => sweeper.stop());
  await courier.start();
  const gateway = config.PARLEY_GATEWAY
    ? createGateway(config, { database, directory, newSessions, settings, log, turns, destinations, clock, logger, secrets })
    : undefined;
  gateway?.replies.start();
  opened.defer(() => gateway?.replies.stop());
  // Created last, and so closed first: while turns are let go of, everything that they need is still open.
  const leases = await createLeases(config, { database, runner, log, feed, turns, logger });
  metrics.gauge('parley_database_ready', '1 while the database answers and takes writes, otherwise 0', () => Number(leases.areKept()));
  const releaseTurns = async () => {
    turns.draining = true;
    await runner.release();
    await leases.release();
  };
  opened.defer(releaseTurns);
  const signingKeys = new SigningKeys(database, secrets);
  const started = opened.move();
  return {
    config,
    clock,
    logger,
    metrics,
    processId,
    database,
    secrets,
    directory,
    rateLimit,
    newSessions,
    waitingRoom,
    log,
    feed,
    settings,
    destinations,
    mcpProxy: createMcpProxy({ database, directory, settings, mcp, credentialFor }),
    uploads: new Uploads(database.db, maxFileBytes(config)),
    warm: createWarming({ directory, settings, runner, log, mcp, credentialFor, warmTools: tools.warmTools }),
    credentialFor,
    materializer,
    signingKeys,
    tokens: new SessionTokens(signingKeys, directory, clock, config.PARLEY_PUBLIC_URL ?? 'parley'),
    signIn: new SignIn(config, database, directory, secrets),
    runner,
    turns,
    courier,
    gateway,
    seeded,
    warnings,
    async drain(over) {
      turns.draining = true;
      await Promise.race([turns.written().then(() => runner.idle()), over]);
      await releaseTurns();
    },
    close: () => started.disposeAsync(),
  };
}
