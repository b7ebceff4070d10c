// Creates organizations with an agent over HTTP, as an operator and a customer do.
import assert from 'node:assert/strict';
import { operatorKey } from './app.ts';
import { connect, type Wire, type WireAnswer } from './wire.ts';

export interface Tenant extends Wire {
  slug: string;
  orgId: number;
  /** The base of the routes below its agent `helper`, which is also the org's default agent. */
  agentPath: string;
  /** Adds a release of `helper`, activates it unless `activate` is false, and returns its version. */
  release(config: Record<string, unknown>, activate?: boolean): Promise<number>;
  /** A new session of `helper`. */
  session(body?: Record<string, unknown>): Promise<string>;
  /** Sends a message on the flat route and expects 200. */
  say(session: string, text: string, more?: Record<string, unknown>): Promise<WireAnswer['body']>;
  operate(changes: Record<string, unknown>): Promise<void>;
  /** A client of the same organization whose key has only these scopes. */
  keyWith(scopes: string[]): Promise<Wire>;
}

let count = 0;

/** Creates an organization for one test, with an agent `helper` that runs this release. */
export async function createTenant(url: string, config: Record<string, unknown> = {}): Promise<Tenant> {
  count += 1;
  const slug = `tenant-${process.pid}-${count}`;
  const operator = connect(url, operatorKey);
  const created = await operator.post('/operator/organizations', { slug });
  assert.equal(created.status, 201, created.text);
  const wire = connect(url, created.body.api_key);
  const tenant: Tenant = {
    ...wire,
    slug,
    orgId: created.body.organization.id,
    agentPath: `/${slug}/helper`,
    async release(next, activate = true) {
      const answer = await wire.post('/api/agents/helper/releases', { ...next, activate });
      assert.equal(answer.status, 201, answer.text);
      return answer.body.release.version;
    },
    async session(body = {}) {
      const answer = await wire.post('/v1/sessions', body);
      assert.equal(answer.status, 200, answer.text);
      return answer.body.id;
    },
    async say(session, text, more = {}) {
      const answer = await wire.post(`/v1/sessions/${session}/messages`, { text, ...more });
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    },
    async operate(changes) {
      const answer = await operator.patch(`/operator/organizations/${slug}`, changes);
      assert.equal(answer.status, 200, answer.text);
    },
    async keyWith(scopes) {
      const answer = await wire.post('/api/api_keys', { name: 'Narrow', scopes });
      assert.equal(answer.status, 201, answer.text);
      return connect(url, answer.body.secret);
    },
  };
  const agent = await wire.post('/api/agents', { slug: 'helper', name: 'Helper', default: true });
  assert.equal(agent.status, 201, agent.text);
  await tenant.release(config);
  return tenant;
}
