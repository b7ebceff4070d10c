// The app as several callers see it: every call names its key, or has none.
import { type AppOptions, inject, type Owner, startApp, type TestApp } from './app.ts';
import { type Json, parseJson } from './json.ts';

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
  body: Json;
}

export interface Parley extends TestApp {
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD', path: string, call?: Call): Promise<Answer>;
}

export async function startParley(owner: Owner, options: AppOptions = {}): Promise<Parley> {
  const app = await startApp(owner, options);
  return {
    ...app,
    async call(method, path, { key, body, headers = {} } = {}) {
      const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
      const answer = await inject(app.server, method, path, body, { ...authorization, ...headers });
      return { ...answer, body: parseJson(answer.text) };
    },
  };
}
