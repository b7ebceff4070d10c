// Every documented route, asked with whatever is no credential for it: refused in one and the same way, and nothing changes.
// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { type FurnishedOrganization, furnishOrganization, pathOf } from '../support/furnished-organization.ts';
import { readOpenApi } from '../support/openapi.ts';
import { unchanged } from '../support/unchanged.ts';

const parley = await startApp(
  { after },
  { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_GATEWAY: '1', PARLEY_RATE_LIMIT_RPS: '0' } },
);
const { operations } = await readOpenApi(parley);
const owner = await furnishOrganization(parley, 'owner');
const stranger = await furnishOrganization(parley, 'stranger');
// Nothing is delivered from here on: what changes is somebody's doing.
await parley.context.courier.stop();

test('every route with every wrong credential: the same 401, byte for byte, or the one 404 for a token of elsewhere', async () => {
  const minted = async (tenant: FurnishedOrganization, body: Record<string, unknown>) =>
    (await parley.call('POST', '/api/agents/desk/session_tokens', { key: tenant.key, body })).body.token as string;
  const made = await parley.call('POST', '/api/api_keys', { key: owner.key, body: { name: 'Revoked', scopes: [] } });
  await parley.call('DELETE', `/api/api_keys/${made.body.api_key.id}`, { key: owner.key });
  const token = await minted(owner, { end_user_id: 'ann' });
  const [header = '', claims = '', signature = ''] = token.split('.');
  const forged = (change: Record<string, unknown>) => {
    const decoded = JSON.parse(Buffer.from(claims, 'base64url').toString());
    return `${header}.${Buffer.from(JSON.stringify({ ...decoded, ...change })).toString('base64url')}.${signature}`;
  };
  const wrong: Record<string, string | undefined> = {
    nothing: undefined,
    'an empty one': 'Bearer ',
    'another scheme': `Basic ${Buffer.from(`x:${owner.key}`).toString('base64')}`,
    'no scheme': owner.key,
    'two words': `Bearer ${owner.key} ${owner.key}`,
    'an unknown key': 'Bearer svc_live_0123456789abcdefghijklmnop',
    'a key with one letter more': `Bearer ${owner.key}x`,
    'a key in capitals': `Bearer ${owner.key.toUpperCase()}`,
    'a revoked key': `Bearer ${made.body.secret}`,
    'the operator key': `Bearer ${parley.operatorKey}`,
    SQL: "Bearer svc_live_'/**/or/**/1=1--aaaaaaaa",
    'a token without a signature': `Bearer ${header}.${claims}.`,
    'a token of no algorithm': `Bearer ${Buffer.from('{"alg":"none"}').toString('base64url')}.${claims}.`,
    'a token with another org in it': `Bearer ${forged({ org_id: stranger.id })}`,
    'a token with another end': `Bearer ${forged({ exp: 9_999_999_999 })}`,
  };
  const bodies = new Set([
    '{"detail":"Unauthorized"}',
    '{"detail":"Unauthorized","error":{"message":"Unauthorized","type":"authentication_error","code":"unauthorized","param":null}}',
    '{"error":"unauthorized","message":"Unauthorized"}',
  ]);
  const foreignToken = `Bearer ${await minted(stranger, { end_user_id: 'ann' })}`;
  await unchanged(parley.context.database.db, owner.id, async () => {
    for (const operation of operations.filter(({ isPublic }) => !isPublic)) {
      const send = (authorization: string | undefined) =>
        parley.call(operation.method, pathOf(operation, owner), {
          headers: authorization === undefined ? {} : { authorization },
          ...(operation.body === undefined ? {} : { body: operation.body.example }),
        });
      const seen = new Set<string>();
      for (const [name, authorization] of Object.entries(wrong)) {
        const answer = await send(authorization);
        assert.equal(answer.status, 401, `${operation.name}, ${name}: ${answer.text}`);
        seen.add(answer.text);
      }
      assert.equal(seen.size, 1, `${operation.name}: ${[...seen]}`);
      assert.ok(bodies.has([...seen][0] ?? ''), `${operation.name}: ${[...seen]}`);
      const elsewhere = await send(foreignToken);
      // Spec 4.3 says it of one route that takes no token at all.
      const isHidden = operation.takesToken || operation.name === 'GET /{org}/{agent}/v1/sessions/{session_id}';
      assert.equal(elsewhere.status, isHidden ? 404 : 401, `${operation.name}: ${elsewhere.text}`);
    }
  });
});
