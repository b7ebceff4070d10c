// The app as several callers see it: every call names its key, or has none.
import { type AppOptions, type Owner, startApp, type TestApp } from './app.ts';

export interface Call {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  /** Parsed where it is JSON: a test says what it expects by reading it. */
  body: ReturnType<typeof JSON.parse>;
}

export interface Parley extends TestApp {
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD', path: string, call?: Call): Promise<Answer>;
}

export async function startParley(owner: Owner, options: AppOptions = {}): Promise<Parley> {
  const app = await startApp(owner, options);
  return {
    ...app,
    async call(method, path, { key, body, headers = {} } = {}) {
      const answer = await app.server.inject({
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
  };
}

function parse(text: string): Answer['body'] {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
