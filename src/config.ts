import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { errorMessage } from './errors.ts';
import { parsePrices } from './harness/models/prices.ts';
import {
  flag,
  gatewayPeers,
  integer,
  list,
  lowerCase,
  matching,
  networks,
  oneOf,
  optional,
  type Parse,
  parseSecretKey,
  path,
  text,
  urlWith,
} from './setting-parsers.ts';

/** A setting as `--help` and the README show it, with the parser that refuses a bad value. */
interface Setting<Value> {
  description: string;
  fallback: string;
  parse: Parse<Value>;
}

const settings = {
  HOST: setting('address to listen on', '127.0.0.1', text),
  PORT: setting('port to listen on; 0 takes a free one', '8080', integer(0, 65_535)),
  PARLEY_DATA_DIR: setting('where the embedded database, generated keys and credentials live', './data', path),
  DATABASE_URL: setting(
    'postgres://… to use PostgreSQL 15 or later instead of the embedded database',
    '',
    optional(urlWith(['postgres:', 'postgresql:'])),
  ),
  PARLEY_DATABASE_POOL: setting('connections to PostgreSQL that one process holds at most', '10', integer(1, 500)),
  REDIS_URL: setting(
    'redis://… to carry wake-ups and live text between processes instead of LISTEN/NOTIFY',
    '',
    optional(urlWith(['redis:', 'rediss:'])),
  ),
  PARLEY_API_KEY: setting(
    'value of the first API key, instead of a generated one',
    '',
    optional(matching(/^svc_live_[A-Za-z0-9_-]{16,}$/, 'svc_live_ and 16 or more of A-Z a-z 0-9 _ -')),
  ),
  PARLEY_OPERATOR_KEY: setting(
    'value of the operator key, instead of a generated one',
    '',
    optional(matching(/^svc_operator_[A-Za-z0-9_-]{16,}$/, 'svc_operator_ and 16 or more of A-Z a-z 0-9 _ -')),
  ),
  PARLEY_SECRET_KEY: setting(
    '32 bytes, Base64 or hex: encrypts stored credentials; generated into the data directory when absent',
    '',
    optional(parseSecretKey),
  ),
  PARLEY_PUBLIC_URL: setting(
    'address under which clients reach this server; issuer of session tokens',
    '',
    optional(urlWith(['http:', 'https:'])),
  ),
  PARLEY_BASE_HOST: setting('Host header that serves the flat API; absent: any', '', optional(lowerCase)),
  PARLEY_AGENT_HOST: setting('Host header that serves the agent routes; absent: any', '', optional(lowerCase)),
  PARLEY_MANAGEMENT_HOST: setting('Host header that serves the management API; absent: any', '', optional(lowerCase)),
  PARLEY_TRUST_PROXY: setting(
    'addresses or networks of proxies, separated by commas, whose X-Forwarded-For names the client in audit events and limits',
    '',
    networks,
  ),
  PARLEY_CORS_ORIGINS: setting(
    'origins that browsers may call the session-token surfaces from, separated by commas; * allows all',
    '*',
    list,
  ),
  PARLEY_GATEWAY: setting('1 turns the gateway routes on', '0', flag),
  PARLEY_GATEWAY_PEERS: setting('JSON map of gateway URL to the API key to sign in there with', '{}', gatewayPeers),
  PARLEY_WEBHOOK_ALLOW_PRIVATE: setting('1 lets webhooks and gateways use plain HTTP and private addresses (development)', '0', flag),
  PARLEY_WEBHOOK_MAX_FAILURES: setting('consecutive failures after which a webhook endpoint is disabled', '25', integer(1, 10_000)),
  PARLEY_WEBHOOK_RETENTION_DAYS: setting('days that webhook events and deliveries are kept', '30', integer(1, 3_650)),
  PARLEY_ALLOW_PRIVATE_UPSTREAMS: setting('1 lets models and MCP servers use plain HTTP and private addresses', '0', flag),
  PARLEY_RATE_LIMIT_RPS: setting('requests a second per organization; 0 turns the limit off', '1000', integer(0, 10_000_000)),
  PARLEY_RATE_LIMIT_BURST: setting('requests an organization may send at once; 0 turns the limit off', '2000', integer(0, 10_000_000)),
  PARLEY_MAX_TURNS: setting('turns that this process runs at once; more are refused with 503', '1000', integer(1, 1_000_000)),
  PARLEY_TURN_RESERVATION_TOKENS: setting(
    'tokens that a turn reserves from a budget before it runs, on top of its text',
    '1024',
    integer(1, 10_000_000),
  ),
  PARLEY_LEASE_MS: setting('how long a silent process keeps its turns before another takes them over', '5000', integer(500, 600_000)),
  PARLEY_DRAIN_SECONDS: setting('how long running turns may go on after SIGTERM', '30', integer(0, 3_600)),
  PARLEY_REQUEST_TIMEOUT_MS: setting(
    'how long a request may take to arrive, its headers a quarter of that; then 408',
    '60000',
    integer(100, 3_600_000),
  ),
  PARLEY_KEEP_ALIVE_MS: setting('how long a connection may stay open without a request', '72000', integer(100, 3_600_000)),
  PARLEY_STREAM_STALL_MS: setting(
    'how long a reader of a stream may take nothing before it is cut off; its cursor stays valid',
    '20000',
    integer(100, 600_000),
  ),
  PARLEY_AUDIT_TOKENS: setting('1 records every minted session token in the audit log', '0', flag),
  PARLEY_PRICES: setting('JSON map of provider/model to micro-dollars a token, over the built-in table', '{}', parsePrices),
  PARLEY_LOG_LEVEL: setting(
    'fatal, error, warn, info, debug, trace or silent; on a terminal warn unless it is set',
    // A person who tries it out reads the first lines, a machine collects all.
    process.stdout.isTTY ? 'warn' : 'info',
    oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
  ),
  OPENAI_API_KEY: setting("the operator's key for OpenAI, for orgs without one of their own", '', optional(text)),
  ANTHROPIC_API_KEY: setting("the operator's key for Anthropic, likewise", '', optional(text)),
  GOOGLE_GENERATIVE_AI_API_KEY: setting("the operator's key for Google, likewise", '', optional(text)),
  OTEL_EXPORTER_OTLP_ENDPOINT: setting(
    'where to send OpenTelemetry traces; absent: none are made',
    '',
    optional(urlWith(['http:', 'https:'])),
  ),
};

type Settings = typeof settings;
export type Config = { readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']> };

/** A setting that cannot be used; its message is the one line a person needs. */
export class ConfigError extends Error {}

/** Reads the environment, with a `.env` file of the working directory below it. Throws `ConfigError`. */
export function loadConfig(environment: NodeJS.ProcessEnv = { ...readDotEnv(), ...process.env }): Config {
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

/** The environment of this process and more, for a program that it calls. Unlike arguments, other users of the machine cannot read it. */
export function environmentWith(more: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...process.env, ...more };
}

/** Where the command line finds a server and what it signs in with: the environment, else what the first start wrote down. */
export function loadClientSettings(environment: NodeJS.ProcessEnv = { ...readDotEnv(), ...process.env }): {
  url: string;
  apiKey: string | undefined;
  operatorKey: string | undefined;
} {
  const kept = readCredentials(resolve(environment.PARLEY_DATA_DIR || './data'));
  return {
    url: (environment.PARLEY_URL || `http://127.0.0.1:${environment.PORT || '8080'}`).replace(/\/+$/, ''),
    apiKey: environment.PARLEY_API_KEY || kept.api_key,
    operatorKey: environment.PARLEY_OPERATOR_KEY || kept.operator_key,
  };
}

function readCredentials(dataDirectory: string): { api_key?: string; operator_key?: string } {
  try {
    return JSON.parse(readFileSync(join(dataDirectory, 'credentials.json'), 'utf8'));
  } catch {
    return {};
  }
}

export function describeSettings(): { name: string; fallback: string; description: string }[] {
  return Object.entries(settings).map(([name, { fallback, description }]) => ({ name, fallback, description }));
}

function readDotEnv(): NodeJS.ProcessEnv {
  try {
    return parseEnv(readFileSync('.env', 'utf8'));
  } catch {
    return {};
  }
}

function setting<Value>(description: string, fallback: string, parse: Parse<Value>): Setting<Value> {
  return { description, fallback, parse };
}
