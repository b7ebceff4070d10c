// What the tests of the chat-completions and responses adapters share.
import assert from 'node:assert/strict';
import type { Tenant } from './tenants.ts';
import { connect, type Wire } from './wire.ts';

interface Adapter {
  /** The end of its path. */
  name: string;
  body(text: string, more?: Record<string, unknown>): Record<string, unknown>;
}

export const adapters: Adapter[] = [
  { name: 'chat/completions', body: (text, more) => ({ messages: [{ role: 'user', content: text }], ...more }) },
  { name: 'responses', body: (text, more) => ({ input: text, ...more }) },
];

/** The text with every id and time replaced, so that a whole answer can be compared with a literal. */
export function pinned(text: string): string {
  return text.replace(/(chatcmpl-|resp_|msg_|req_|ses_)[0-9A-Z]{26}/g, '$1ID').replace(/"(created|created_at)":\d{10}\b/g, '"$1":0');
}

/** The not-found answer of the two adapters. */
export const notFoundText =
  '{"detail":"Not Found","error":{"message":"Not Found","type":"not_found_error","code":"not_found","param":null}}';

export async function withToken(tenant: Tenant, claims: Record<string, unknown>, agent = 'helper'): Promise<Wire> {
  const minted = await tenant.post(`/api/agents/${agent}/session_tokens`, claims);
  assert.equal(minted.status, 200, minted.text);
  return connect(tenant.url, minted.body.token);
}

export async function sessionCount(tenant: Tenant): Promise<number> {
  return (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.total;
}

export async function transcript(tenant: Tenant, sessionId: string): Promise<{ role: string; text: string }[]> {
  return (await tenant.get(`${tenant.agentPath}/v1/sessions/${sessionId}/messages`)).body.messages;
}
