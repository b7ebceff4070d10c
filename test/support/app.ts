// The whole application in the test's own process, on a fresh database.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { InjectOptions } from 'fastify';
import { createApp } from '../../src/app.ts';
import type { Clock } from '../../src/clock.ts';
import { loadConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { createContext } from '../../src/start/create-context.ts';
import type { Server } from '../../src/surfaces/shared/fastify.ts';
import { createDatabase, type TestDatabase } from './engine.ts';
import { type Json, parseJson } from './json.ts';

export const apiKey = 'svc_live_test_key_of_the_demo_org';
export const operatorKey = 'svc_operator_test_key_of_the_operator';

/** A test's context, or `{ after }` of node:test for an app that serves a whole file. */
export interface Owner {
  after(work: () => Promise<void>): void;
}

export interface AppOptions {
  /** Environment variables, over those that `startApp` sets itself. */
  settings?: Record<string, string>;
  clock?: Clock;
  /** Use this database instead of a new one, and do not remove it, so that a second app can open it afterwards. */
  database?: TestDatabase;
}

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  /** Parsed where it is JSON, undefined where it is not. */
  body: Json;
}

export interface Call {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface TestApp {
  context: Context;
  server: Server;
  apiKey: string;
  operatorKey: string;
  /**
   * Sends a request, without a socket, as the demo organization unless `headers` say otherwise. A body that is not a string is
   * sent as JSON.
   */
  request(method: InjectOptions['method'], path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** The same with the given key, or without any credential. */
  call(method: InjectOptions['method'], path: string, call?: Call): Promise<Answer>;
  /** Listens on a free port, from the first call on, and returns its URL. */
  listen(): Promise<string>;
  close(): Promise<void>;
}

export async function startApp(owner: Owner, options: AppOptions = {}): Promise<TestApp> {
  const database = options.database ?? (await createDatabase());
  const config = loadConfig({
    PARLEY_API_KEY: apiKey,
    PARLEY_OPERATOR_KEY: operatorKey,
    PARLEY_LOG_LEVEL: 'warn',
    PORT: '0',
    ...database.settings,
    ...options.settings,
  });
  const context = await createContext(config, options.clock);
  const server = await createApp(context);
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= closeApp(server, context, options.database === undefined ? database : undefined);
    return closed;
  };
  owner.after(close);
  return {
    context,
    server,
    apiKey,
    operatorKey,
    request: (method, path, body, headers) => inject(server, method, path, body, { authorization: `Bearer ${apiKey}`, ...headers }),
    call(method, path, { key, body, headers } = {}) {
      const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
      return inject(server, method, path, body, { ...authorization, ...headers });
    },
    async listen() {
      if (!server.server.listening) await server.listen({ host: config.HOST, port: 0 });
      const address = server.server.address();
      if (address === null || typeof address === 'string') throw new Error('the app does not listen');
      return `http://${config.HOST}:${address.port}`;
    },
    close,
  };
}

async function inject(
  server: Server,
  method: InjectOptions['method'],
  path: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Answer> {
  const {
    statusCode,
    headers: answered,
    payload,
  } = await server.inject({
    method: method ?? 'GET',
    url: path,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: statusCode, headers: answered, text: payload, body: parseJson(payload) };
}

/** Throws if a turn is still running: a test that starts one must wait for its end, pause it or stop it. */
async function closeApp(server: Server, context: Context, database: TestDatabase | undefined): Promise<void> {
  const isIdle = await Promise.race([context.runner.idle().then(() => true), sleep(2_000, false, { ref: false })]);
  const left = [...context.runner.running.keys()];
  if (server.server.listening) {
    const ended = once(server.server, 'close');
    server.server.closeAllConnections();
    await Promise.all([server.close(), ended]);
  } else {
    await server.close();
  }
  await context.close();
  await database?.remove();
  if (!isIdle) throw new Error(`the test left turns running: ${left.join(', ')}`);
}
