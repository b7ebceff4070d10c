import type { CredentialFor } from './accounts/credential-for.ts';
import type { Directory } from './accounts/directory.ts';
import type { Materializer } from './accounts/materialize.ts';
import type { SecretBox } from './accounts/secret-box.ts';
import type { SeedResult } from './accounts/seed.ts';
import type { SessionTokens } from './accounts/session-tokens.ts';
import type { SignIn } from './accounts/sign-in.ts';
import type { SigningKeys } from './accounts/signing-keys.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config.ts';
import type { Database } from './database/database.ts';
import type { Destinations } from './destination/destinations.ts';
import type { Gateway } from './gateway/gateway.ts';
import type { Uploads } from './instances/upload.ts';
import type { WarmSessions } from './instances/warm-sessions.ts';
import type { RateLimit } from './load/rate-limit.ts';
import type { WaitingRoom } from './load/waiting-room.ts';
import type { Courier } from './outbox/courier.ts';
import type { Feed } from './session/feed.ts';
import type { SessionLog } from './session/log.ts';
import type { NewSessions } from './session/new-sessions.ts';
import type { Logger } from './telemetry/logger.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { McpProxy } from './turn/mcp-proxy.ts';
import type { Runner } from './turn/runner.ts';
import type { Settings } from './turn/settings.ts';
import type { Turns } from './turn/turns.ts';

/** Everything that lives as long as the process does; `start/create-context.ts` puts it together. */
export interface Context {
  config: Config;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
  processId: string;
  database: Database;
  secrets: SecretBox;
  directory: Directory;
  rateLimit: RateLimit;
  newSessions: NewSessions;
  waitingRoom: WaitingRoom;
  log: SessionLog;
  feed: Feed;
  settings: Settings;
  destinations: Destinations;
  mcpProxy: McpProxy;
  uploads: Uploads;
  warm: WarmSessions;
  credentialFor: CredentialFor;
  materializer: Materializer;
  signingKeys: SigningKeys;
  tokens: SessionTokens;
  signIn: SignIn;
  runner: Runner;
  turns: Turns;
  courier: Courier;
  /** Undefined unless the gateway is enabled. */
  gateway: Gateway | undefined;
  /** Keys that the first start created, which are shown once. */
  seeded: SeedResult;
  warnings: string[];
  /** Takes no more turns, lets running ones finish until `over` resolves, and lets go of the rest for another process to continue. */
  drain(over: Promise<void>): Promise<void>;
  close(): Promise<void>;
}
