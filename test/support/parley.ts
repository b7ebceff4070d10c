// The real app on a fresh database of the engine under test, spoken to over the wire's shapes without a socket.
import { createApp } from '../../src/app.ts';
import type { Clock } from '../../src/clock.ts';
import { loadConfig } from '../../src/config.ts';
import { type Context, createContext } from '../../src/context.ts';
import { createDatabase } from './engine.ts';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  text: string;
  /** Parsed where it is JSON: a test says what it expects by reading it. */
  body: ReturnType<typeof JSON.parse>;
}

export interface Call {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Parley {
  apiKey: string;
  operatorKey: string;
  context: Context;
  app: Awaited<ReturnType<typeof createApp>>;
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD', path: string, call?: Call): Promise<Answer>;
  close(): Promise<void>;
}

export async function startParley(settings: Record<string, string> = {}, options: { clock?: Clock } = {}): Promise<Parley> {
  const database = await createDatabase();
  const config = loadConfig({
    PARLEY_LOG_LEVEL: 'silent',
    PARLEY_SECRET_KEY: Buffer.alloc(32, 3).toString('base64'),
    PARLEY_API_KEY: 'svc_live_testtesttesttesttest',
    PARLEY_OPERATOR_KEY: 'svc_operator_testtesttesttest',
    ...database.settings,
    ...settings,
  });
  const context = await createContext(config, options);
  const app = await createApp(context);
  return {
    apiKey: config.PARLEY_API_KEY ?? '',
    operatorKey: config.PARLEY_OPERATOR_KEY ?? '',
    context,
    app,
    async call(method, path, { key, body, headers = {} } = {}) {
      const answer = await app.inject({
        method,
        url: path,
        headers: {
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      return { status: answer.statusCode, headers: answer.headers, text: answer.payload, body: parse(answer.payload) };
    },
    async close() {
      await app.close();
      await context.close();
      await database.remove();
    },
  };
}

function parse(text: string): Answer['body'] {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
