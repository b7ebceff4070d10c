// What a model call that is stopped has used, where nothing of it was shown.
// One engine: what this tries is on the model's side of the wire.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { serveLocally } from '../support/local-server.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';

const app = await startApp({ after }, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
const url = await app.listen();

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`;

/** A tenant on a chat-completions server that streams. */
async function tenantOf(
  owner: { after(work: () => void): void },
  answer: (outgoing: ServerResponse, text: string) => void,
  config: Record<string, unknown> = {},
): Promise<Tenant> {
  const provider = await serveLocally(async (incoming, outgoing) => {
    const { messages } = JSON.parse(Buffer.concat(await incoming.toArray()).toString('utf8'));
    outgoing.setHeader('content-type', 'text/event-stream');
    answer(outgoing, messages.at(-1).content);
  });
  owner.after(() => provider.close());
  return createTenant(url, { ...config, model: { provider: 'openai-compatible', name: 'm', base_url: provider.origin } });
}

const interrupt = (tenant: Tenant, id: string) =>
  tenant.post(`${tenant.agentPath}/v1/managed-agents/sessions/${id}/events`, { type: 'user.interrupt' });

const tokensUsed = async (tenant: Tenant): Promise<number> => (await tenant.get('/api/budget')).body.budget.tokens_used;

test('the input of a tool call counts as far as it came, though the call was never made', async (t) => {
  const start = { index: 0, id: 'call_a', function: { name: 'files', arguments: `{"content":"${'x'.repeat(1_988)}` } };
  const more = { index: 0, function: { arguments: 'x'.repeat(1_995) } };
  const tenant = await tenantOf(t, (outgoing) => {
    // The word tells when all before it has arrived.
    outgoing.write(chunk({ tool_calls: [start] }) + chunk({ tool_calls: [more] }) + chunk({ content: 'word' }));
  });
  const id = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'Write me a long file.', stream: true });
  await stream.until('text');
  await interrupt(tenant, id);
  const { usage, stop_reason } = (await stream.rest()).at(-1)?.data.data ?? {};
  // 21 characters came in. The name of the tool, its input and the word that went out are 4,004.
  assert.deepEqual([stop_reason, usage], ['interrupted', { input_tokens: 6, output_tokens: 1_001, total_tokens: 1_007 }]);
  assert.equal(await tokensUsed(tenant), 1_007);
});

test('a summary counts as far as it came, when its time is up and when it breaks off and is asked for again', async (t) => {
  const asked: string[] = [];
  const tenant = await tenantOf(
    t,
    (outgoing, text) => {
      asked.push(text);
      if (!text.startsWith('Summarise')) return outgoing.end(chunk({ content: 'Yes.' }, 'stop'));
      outgoing.write(chunk({ content: 'They spoke of rivers.' }));
      if (asked.length === 3) outgoing.end();
      if (asked.length === 4) outgoing.end(chunk({}, 'stop'));
    },
    { context: { limit_tokens: 300, overflow: 'summarize' }, limits: { turn_timeout_s: 2 } },
  );
  const id = await tenant.session();
  const send = async (text: string) => (await (await tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true })).rest()).at(-1);
  await send('x'.repeat(1_200));
  const before = await tokensUsed(tenant);

  assert.equal((await send('And now?'))?.data.data.code, 'turn_timeout');
  // What was said has 1,204 characters, what is asked for 113; what came of the summary has 21.
  const ofSummary = 330 + 6;
  assert.equal(await tokensUsed(tenant), before + ofSummary);

  const { usage } = (await send('And now?'))?.data.data ?? {};
  // The answer to the summary and both questions: 21 and 1.
  assert.deepEqual(usage, { input_tokens: 2 * 330 + 21, output_tokens: 2 * 6 + 1, total_tokens: 2 * ofSummary + 22 });
  assert.deepEqual(
    asked.map((text) => text.slice(0, 9)),
    ['xxxxxxxxx', 'Summarise', 'Summarise', 'Summarise', 'Summary o'],
  );
  assert.match(asked.at(-1) ?? '', /They spoke of rivers\.\n\nAnd now\?\n\nAnd now\?$/);
  assert.equal(await tokensUsed(tenant), before + ofSummary + usage.total_tokens);
});

test('a call whose answer does not begin counts with its input when it is stopped, and not at all while another attempt is waited for', async (t) => {
  const asked: string[] = [];
  const tenant = await tenantOf(
    t,
    (outgoing, text) => {
      asked.push(text);
      if (text.endsWith('busy')) outgoing.writeHead(429, { 'retry-after': '20' }).end();
      else outgoing.flushHeaders();
    },
    { limits: { turn_timeout_s: 1 } },
  );
  const id = await tenant.session();
  const send = async (text: string) => (await (await tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true })).rest()).at(-1);
  assert.equal((await send('x'.repeat(4_000)))?.data.data.code, 'turn_timeout');
  assert.equal(await tokensUsed(tenant), 1_000);
  assert.equal((await send('busy'))?.data.data.code, 'turn_timeout');
  assert.deepEqual([asked.length, await tokensUsed(tenant)], [2, 1_000]);
});
