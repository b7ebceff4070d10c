// Starts a gateway and creates organizations whose default agent is called helper.
import assert from 'node:assert/strict';
import { createAgent, createOrganization, type TestOrganization } from './accounts.ts';
import { type Answer, type Owner, startApp, type TestApp } from './app.ts';
import { until } from './until.ts';

export const ownUrl = 'https://here.example.com';

export interface TestGateway {
  parley: TestApp;
  newOrganization(): Promise<TestOrganization>;
  submit(org: TestOrganization, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  deliver(org: TestOrganization, body: unknown): Promise<Answer>;
  sessionOf(org: TestOrganization, sessionId: string): Promise<Answer['body']>;
  /** The managed log, once the session rests after `turns` turns. */
  logOf(org: TestOrganization, sessionId: string, turns: number): Promise<Answer['body']>;
}

export async function startGateway(owner: Owner): Promise<TestGateway> {
  const settings = {
    PARLEY_GATEWAY: '1',
    PARLEY_WEBHOOK_ALLOW_PRIVATE: '1',
    PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1',
    PARLEY_PUBLIC_URL: `${ownUrl}/`,
  };
  const parley = await startApp(owner, { settings });
  return {
    parley,
    async newOrganization() {
      const org = await createOrganization(parley);
      await createAgent(parley, org.key, 'helper');
      await parley.call('PATCH', '/api/organization', { key: org.key, body: { default_agent: 'helper' } });
      return org;
    },
    submit: (org, body, headers = {}) => parley.call('POST', '/v1/gateway/events', { key: org.key, body, headers }),
    deliver: (org, body) => parley.call('POST', '/v1/gateway/deliveries', { key: org.key, body }),
    sessionOf: async (org, sessionId) => (await parley.call('GET', `/v1/sessions/${sessionId}`, { key: org.key })).body,
    async logOf(org, sessionId, turns) {
      let events: { type: string }[] = [];
      await until(async () => {
        const answer = await parley.call('GET', `/${org.slug}/helper/v1/managed-agents/sessions/${sessionId}`, { key: org.key });
        assert.equal(answer.status, 200, answer.text);
        events = answer.body.events;
        return events.filter((event) => event.type === 'session.status_idle').length >= turns;
      }, 30_000);
      return events;
    },
  };
}

/** An event in which the participant `ada` of this gateway sends a message. */
export function message(text: string, more: Record<string, unknown> = {}) {
  return { sender_id: 'ada', sender_type: 'human', event_type: 'message', message: text, ...more };
}
