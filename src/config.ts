import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { errorCode, errorMessage } from './errors.ts';
import { parsePrices } from './harness/models/prices.ts';
import {
  credential,
  flag,
  gatewayPeers,
  host,
  integer,
  matching,
  networks,
  oneOf,
  optional,
  origins,
  type Parse,
  parseSecretKey,
  path,
  redisUrl,
  rootUrl,
  text,
  urlWith,
} from './setting-parsers.ts';
import { fieldOf, parseJson } from './text/json.ts';
import { keyShapes } from './text/key-shapes.ts';

/** A setting as `--help` and the README show it, with the parser that refuses a bad value. */
interface Setting<Value> {
  description: string;
  fallback: string;
  parse: Parse<Value>;
}

const settings = {
  HOST: setting('address to listen on', '127.0.0.1', text),
  PORT: setting('port to listen on; 0 picks a free one', '8080', integer(0, 65_535)),
  PARLEY_DATA_DIR: setting('directory of the embedded database, generated keys and credentials.json', './data', path),
  DATABASE_URL: setting(
    'postgres://… of a PostgreSQL 15 or later, used instead of the embedded database',
    '',
    optional(urlWith(['postgres:', 'postgresql:'])),
  ),
  PARLEY_DATABASE_POOL: setting('maximum PostgreSQL connections in the pool of each process, which opens four more', '10', integer(1, 500)),
  REDIS_URL: setting('redis://… of a Redis that carries notifications between processes instead of LISTEN/NOTIFY', '', optional(redisUrl)),
  PARLEY_API_KEY: setting(
    'value of the first API key; generated if not set',
    '',
    optional(matching(keyShapes.api, 'svc_live_ and 16 to 247 of A-Z a-z 0-9 _ -')),
  ),
  PARLEY_OPERATOR_KEY: setting(
    'value of the operator key; generated if not set',
    '',
    optional(matching(keyShapes.operator, 'svc_operator_ and 16 to 243 of A-Z a-z 0-9 _ -')),
  ),
  PARLEY_SECRET_KEY: setting(
    '32 bytes in Base64 or hex that encrypt stored credentials; generated into the data directory if not set',
    '',
    optional(parseSecretKey),
  ),
  PARLEY_PUBLIC_URL: setting('URL at which clients reach this server; also the issuer of session tokens', '', optional(rootUrl)),
  PARLEY_BASE_HOST: setting('Host header that serves the flat API; any if not set', '', optional(host)),
  PARLEY_AGENT_HOST: setting('Host header that serves the agent routes; any if not set', '', optional(host)),
  PARLEY_MANAGEMENT_HOST: setting('Host header that serves the management API; any if not set', '', optional(host)),
  PARLEY_TRUST_PROXY: setting(
    'comma-separated addresses or networks of proxies whose X-Forwarded-For is trusted for the client address',
    '',
    networks,
  ),
  PARLEY_CORS_ORIGINS: setting('comma-separated origins from which browsers may call the session-token routes; * allows all', '*', origins),
  PARLEY_GATEWAY: setting('1 enables the gateway routes', '0', flag),
  PARLEY_GATEWAY_PEERS: setting('JSON object that maps the URL of a peer gateway to the API key to use there', '{}', gatewayPeers),
  PARLEY_WEBHOOK_ALLOW_PRIVATE: setting('1 allows plain HTTP and private addresses for webhooks and gateways (for development)', '0', flag),
  PARLEY_WEBHOOK_MAX_FAILURES: setting('consecutive failures after which a webhook endpoint is disabled', '25', integer(1, 10_000)),
  // Longer than the attempts at one delivery can take, about 55 hours: otherwise it would be gone before the last of them.
  PARLEY_WEBHOOK_RETENTION_DAYS: setting('days for which webhook events and deliveries are kept', '30', integer(3, 3_650)),
  PARLEY_ALLOW_PRIVATE_UPSTREAMS: setting('1 allows plain HTTP and private addresses for models and MCP servers', '0', flag),
  PARLEY_RATE_LIMIT_RPS: setting('requests per second per organization; 0 disables the limit', '1000', integer(0, 10_000_000)),
  PARLEY_RATE_LIMIT_BURST: setting('burst of requests per organization; 0 disables the limit', '2000', integer(0, 10_000_000)),
  PARLEY_MAX_FILES_MIB: setting(
    'maximum MiB of files in all workspaces of an organization together; 0 disables the limit',
    '102400',
    integer(0, 1_000_000_000),
  ),
  PARLEY_MAX_TURNS: setting('maximum concurrent turns per process; more are refused with 503', '1000', integer(1, 1_000_000)),
  PARLEY_TURN_RESERVATION_TOKENS: setting(
    'tokens a turn reserves from the budget before it runs, in addition to the length of its text',
    '1024',
    integer(1, 10_000_000),
  ),
  PARLEY_LEASE_MS: setting('how long a process may be silent before another takes over its turns', '5000', integer(500, 600_000)),
  PARLEY_DRAIN_SECONDS: setting('how long running turns may continue after SIGTERM', '30', integer(0, 3_600)),
  PARLEY_REQUEST_TIMEOUT_MS: setting(
    'how long a request may take to arrive before it gets 408; its headers get a quarter of that',
    '60000',
    integer(100, 3_600_000),
  ),
  PARLEY_KEEP_ALIVE_MS: setting('how long an idle connection stays open', '72000', integer(100, 3_600_000)),
  PARLEY_STREAM_STALL_MS: setting(
    'how long a client may take nothing of an answer before it is disconnected; a stream can be resumed',
    '20000',
    integer(100, 600_000),
  ),
  PARLEY_AUDIT_TOKENS: setting('1 records every minted session token in the audit log', '0', flag),
  PARLEY_PRICES: setting(
    'JSON object that maps provider/model to micro-dollars per token, overriding the built-in prices',
    '{}',
    parsePrices,
  ),
  PARLEY_LOG_LEVEL: setting(
    'fatal, error, warn, info, debug, trace or silent; on a terminal the default is warn',
    // On a terminal a person reads the output; otherwise it is collected.
    process.stdout.isTTY ? 'warn' : 'info',
    oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
  ),
  OPENAI_API_KEY: setting("the operator's OpenAI key, for organizations without a key of their own", '', optional(credential)),
  ANTHROPIC_API_KEY: setting("the operator's Anthropic key, likewise", '', optional(credential)),
  GOOGLE_GENERATIVE_AI_API_KEY: setting("the operator's Google key, likewise", '', optional(credential)),
  OTEL_EXPORTER_OTLP_ENDPOINT: setting('where to send OpenTelemetry traces; none if not set', '', optional(rootUrl)),
};

type Settings = typeof settings;
export type Config = { readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']> };

/** A setting that cannot be used. Its message is all that a person needs to correct it. */
export class ConfigError extends Error {}

/** Reads the environment and, for what is not set there, the file `.env` in the working directory. Throws `ConfigError`. */
export function loadConfig(environment: NodeJS.ProcessEnv = readEnvironment()): Config {
  const entries = Object.entries(settings).map(([name, { fallback, parse }]) => {
    const given = environment[name];
    try {
      return [name, parse(given === undefined || given === '' ? fallback : given)];
    } catch (error) {
      throw new ConfigError(`${name}: ${errorMessage(error)}`, { cause: error });
    }
  });
  return Object.fromEntries(entries) as Config;
}

/** Warnings about settings without effect: unknown names, which may be misspelt, and settings that need another one. */
export function describeIdleSettings(config: Config): string[] {
  const unknown = Object.keys(readEnvironment()).filter(
    (name) => name.startsWith('PARLEY_') && !Object.hasOwn(settings, name) && !foreignNames.test(name),
  );
  const notes = unknown.length === 0 ? [] : [`no such setting: ${unknown.join(', ')}; npm start -- --help lists them.`];
  if (config.REDIS_URL !== undefined && config.DATABASE_URL === undefined)
    notes.push('REDIS_URL is not used: the embedded database serves one process, which has nobody to notify. Set DATABASE_URL too.');
  if (Object.keys(config.PARLEY_GATEWAY_PEERS).length > 0 && !config.PARLEY_GATEWAY)
    notes.push('PARLEY_GATEWAY_PEERS is not used: the gateway is off. Set PARLEY_GATEWAY=1 too.');
  return notes;
}

/** Names that only the command line reads, and those that Kubernetes sets for a service named `parley`. */
const foreignNames = /^PARLEY_(URL$|PORT($|_)|SERVICE_)/;

/** The environment of this process with additions, for a program that it runs: other users of the machine can read only arguments. */
export function environmentWith(more: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...process.env, ...more };
}

/** The server that the command line talks to. */
export function loadClientSettings(): {
  url: string;
  /** The settings that the URL is made of. */
  urlSettings: string;
  /** For links that a person opens in a browser: clients may reach the server under another URL. */
  publicUrl: string;
} {
  const environment = readEnvironment();
  const url = (environment.PARLEY_URL || localUrl(environment.HOST || '127.0.0.1', environment.PORT || '8080')).replace(/\/+$/, '');
  return {
    url,
    urlSettings: environment.PARLEY_URL ? 'PARLEY_URL' : 'HOST, PORT',
    publicUrl: environment.PARLEY_URL ? url : environment.PARLEY_PUBLIC_URL?.replace(/\/+$/, '') || url,
  };
}

/** A setting with a key of the command line. */
export type KeyName = 'PARLEY_API_KEY' | 'PARLEY_OPERATOR_KEY';

/** A key of the command line: from the environment, or else from the file that the first start wrote. Throws `ConfigError`. */
export function loadKey(name: KeyName): string {
  const environment = readEnvironment();
  const file = join(resolve(environment.PARLEY_DATA_DIR || './data'), 'credentials.json');
  try {
    return environment[name] || readKey(file, name === 'PARLEY_API_KEY' ? 'api_key' : 'operator_key');
  } catch (error) {
    throw new ConfigError(`${name} is not set, and ${file} ${errorMessage(error)}; the first \`npm start\` printed it`, { cause: error });
  }
}

/** The URL of a server that listens on this address, for programs on the same machine. */
export function localUrl(host: string, port: number | string): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/** Throws an error that says what is wrong with the file, to go on a sentence that begins with its name. */
function readKey(file: string, field: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(errorCode(error) === 'ENOENT' ? 'is not there' : `cannot be read (${errorCode(error)})`, { cause: error });
  }
  const kept = parseJson(text);
  const key = fieldOf(kept, field);
  if (typeof key !== 'string') throw new Error(kept === undefined ? 'is not JSON' : `has no ${field}`);
  return key;
}

export function describeSettings(): { name: string; fallback: string; description: string }[] {
  return Object.entries(settings).map(([name, { fallback, description }]) => ({ name, fallback, description }));
}

function readEnvironment(): NodeJS.ProcessEnv {
  return { ...readDotEnv(), ...process.env };
}

/** A `.env` that exists but cannot be read is an error: without it the server could start on another database than was meant. */
function readDotEnv(): NodeJS.ProcessEnv {
  try {
    // The decoder removes a byte-order mark, which would become part of the first name.
    return parseEnv(new TextDecoder('utf-8', { fatal: true }).decode(readFileSync('.env')));
  } catch (error) {
    if (['ENOENT', 'EISDIR'].includes(errorCode(error) ?? '')) return {};
    throw new ConfigError(`.env: ${errorMessage(error)}`, { cause: error });
  }
}

function setting<Value>(description: string, fallback: string, parse: Parse<Value>): Setting<Value> {
  return { description, fallback, parse };
}
