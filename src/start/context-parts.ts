// The parts of the context that take more than a call of their constructor. The callbacks that connect a part with others are set here.
import { Materializer } from '../accounts/materialize.ts';
import type { Upstreams } from '../accounts/pin-release.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { gatewayUrl } from '../gateway/event.ts';
import { Gateway } from '../gateway/gateway.ts';
import { Courier } from '../outbox/courier.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { operatorsModelKey } from '../turn/create-settings.ts';
import { holdLeases, holdOn, type Leases } from '../turn/leases.ts';
import { Runner } from '../turn/runner.ts';
import { maxFileBytes } from '../workspace-limits.ts';

export function createRunner(
  config: Config,
  parts: Pick<Context, 'database' | 'directory' | 'processId' | 'log' | 'feed' | 'logger' | 'settings' | 'metrics'> & { tracing: Tracing },
): Runner {
  const { database, directory, processId, log, feed, logger, settings, metrics, tracing } = parts;
  const runner = new Runner({
    log,
    feed,
    logger,
    maxFileBytes: maxFileBytes(config),
    settingFor: (orgId, sessionId) => settings.of(orgId, sessionId),
    async mayRun({ orgId, agentId }) {
      const organization = await directory.organizationById(orgId);
      const agent = await directory.agentById(orgId, agentId);
      return organization?.status === 'active' && agent !== undefined;
    },
    holdOn: (turnId) => holdOn(database, processId, turnId),
    onTurnTaken: (setting, turnId) => tracing.turnStarted(turnId, setting),
    onTurnLeft: tracing.turnEnded,
    onTurnPaused: metrics.turnPaused,
    onTurnEnded({ orgId, sessionId }, state, milliseconds) {
      metrics.turnEnded(state, milliseconds);
      const { id, ended, failure } = state.turn ?? {};
      const line = { org_id: orgId, session_id: sessionId, turn_id: id, outcome: ended, ...failure, ms: Math.round(milliseconds) };
      logger.info(line, 'turn ended');
    },
  });
  log.countRunning = () => runner.running.size;
  directory.onChange((changed) => {
    runner.recheck.noteChange(changed);
    void recheck(runner, logger);
  });
  return runner;
}

async function recheck(runner: Runner, logger: Context['logger']): Promise<void> {
  await runner.recheck.run().catch((error: unknown) => logger.warn({ err: error }, 'could not check running turns'));
}

export function createLeases(
  config: Config,
  parts: Pick<Context, 'database' | 'runner' | 'log' | 'feed' | 'turns' | 'logger'>,
): Promise<Leases> {
  const { database, runner, log, feed, turns, logger } = parts;
  return holdLeases(database, runner, {
    holderName: () => log.holderName.current(),
    leaseMs: config.PARLEY_LEASE_MS,
    logger,
    mayClaim: () => !turns.draining,
    onBeat() {
      for (const sessionId of log.takeDoubtful()) feed.lookAgain(sessionId);
      // Those that could not be checked when something changed, because the database did not answer.
      void recheck(runner, logger);
    },
    onStranded: (reason) => feed.strandAll(reason, (sessionId) => runner.turnOf(sessionId) !== undefined),
  });
}

export function createMaterializer(
  config: Config,
  parts: Pick<Context, 'database' | 'directory' | 'destinations' | 'credentialFor' | 'logger'>,
): Materializer {
  const { database, directory, destinations, credentialFor, logger } = parts;
  const upstreams: Upstreams = {
    checkUrl: (url) => destinations.upstreams.check(url),
    credentialFor,
    hasOperatorsModelKey: (provider) => operatorsModelKey(config, provider) !== undefined,
    async listServerTools(server, credential, signal) {
      const { listServerTools } = await import('../instances/mcp-tools.ts');
      return listServerTools(server, credential, destinations.upstreams.fetch, signal);
    },
  };
  return new Materializer(database, directory, upstreams, logger);
}

export function createCourier(
  config: Config,
  { destinations, ...parts }: Pick<Context, 'database' | 'processId' | 'clock' | 'logger' | 'secrets' | 'destinations'>,
): Courier {
  return new Courier({
    ...parts,
    fetch: destinations.webhooks.fetch,
    gatewayFetch: destinations.gateways.fetch,
    peers: config.PARLEY_GATEWAY_PEERS,
    maxFailures: config.PARLEY_WEBHOOK_MAX_FAILURES,
    leaseMs: config.PARLEY_LEASE_MS,
    retentionDays: config.PARLEY_WEBHOOK_RETENTION_DAYS,
  });
}

/** A gateway needs a name to recognize events that it has passed on. Without a public URL, the id of its secret key serves as one. */
export function createGateway(
  config: Config,
  parts: Pick<
    Context,
    'database' | 'directory' | 'newSessions' | 'settings' | 'log' | 'turns' | 'destinations' | 'clock' | 'logger' | 'secrets'
  >,
): Gateway {
  const { destinations, secrets, ...rest } = parts;
  const url = config.PARLEY_PUBLIC_URL === undefined ? undefined : gatewayUrl(config.PARLEY_PUBLIC_URL);
  return new Gateway({ ...rest, destination: destinations.gateways, identity: { name: url ?? `urn:parley:${secrets.keyId}`, url } });
}
