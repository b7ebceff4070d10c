import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startServer } from '../../support/server-process.ts';

const secret = 'sk-PLAINTEXT-must-never-be-seen-9x7q';
const server = await startServer({ after }, { settings: { PARLEY_LOG_LEVEL: 'trace' } });

async function call(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

test('a stored credential shows its last four characters and nothing more, anywhere', async () => {
  const answers = [
    await call('PUT', '/api/model_credentials/openai', { api_key: secret }),
    await call('GET', '/api/model_credentials/openai'),
    await call('GET', '/api/model_credentials'),
    await call('PUT', '/api/model_credentials/openai', { api_key: secret, extra: secret }),
    await call('PUT', '/api/model_credentials/openai', { api_key: [secret] }),
    await call('PUT', '/api/model_credentials/openai', { api_key: `${secret} ` }),
    await call('POST', '/api/agents/assistant/releases', { model: { provider: 'openai', name: 'gpt-5' } }),
    await call('GET', '/api/audit_events'),
    await call('GET', '/api/audit_events.csv'),
    await call('DELETE', '/api/model_credentials/nothing'),
  ];
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 200, 200, 422, 422, 422, 201, 200, 200, 404],
  );
  assert.equal(JSON.parse(answers[1]?.text ?? '').model_credential.last_four, '9x7q');
  for (const { text } of answers) assert.equal(text.includes(secret), false, text);
  await server.stop();
  assert.equal(server.output().includes(secret), false, 'not in the log');
  for (const file of readdirSync(server.database.settings.PARLEY_DATA_DIR, { recursive: true, withFileTypes: true })) {
    if (!file.isFile()) continue;
    assert.equal(readFileSync(join(file.parentPath, file.name)).includes(secret), false, `not in ${file.name}`);
  }
});
