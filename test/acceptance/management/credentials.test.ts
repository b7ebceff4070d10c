import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startServer } from '../../support/server-process.ts';
import { connect } from '../../support/wire.ts';

const secret = 'sk-PLAINTEXT-must-never-be-seen-9x7q';
const server = await startServer({ after }, { settings: { PARLEY_LOG_LEVEL: 'trace' } });
const wire = connect(server.url, server.apiKey);

test('stored credentials are listed by name, a page at a time', async () => {
  for (const name of ['crm', 'anthropic', 'billing']) await wire.put(`/api/model_credentials/${name}`, { api_key: `${secret}-too` });
  const names = async (query: string) => {
    const { data, next_cursor } = (await wire.get(`/api/model_credentials?limit=2${query}`)).body;
    return { names: data.map(({ provider }: { provider: string }) => provider), cursor: next_cursor };
  };
  const first = await names('');
  assert.deepEqual(first.names, ['anthropic', 'billing']);
  assert.deepEqual(await names(`&cursor=${first.cursor}`), { names: ['crm'], cursor: null });
  assert.equal((await wire.get('/api/model_credentials?cursor=x')).status, 422);
});

test('a stored credential shows its last four characters and nothing more, anywhere', async () => {
  const answers = [
    await wire.put('/api/model_credentials/openai', { api_key: secret }),
    await wire.get('/api/model_credentials/openai'),
    await wire.get('/api/model_credentials'),
    await wire.put('/api/model_credentials/openai', { api_key: secret, extra: secret }),
    await wire.put('/api/model_credentials/openai', { api_key: [secret] }),
    await wire.put('/api/model_credentials/openai', { api_key: `${secret} ` }),
    await wire.post('/api/agents/assistant/releases', { model: { provider: 'openai', name: 'gpt-5' } }),
    await wire.get('/api/audit_events'),
    await wire.get('/api/audit_events.csv'),
    await wire.delete('/api/model_credentials/nothing'),
    await wire.put('/api/model_credentials/short', { api_key: 'only-11-now' }),
  ];
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 200, 200, 422, 422, 422, 201, 200, 200, 404, 200],
  );
  assert.equal(answers[1]?.body.model_credential.last_four, '9x7q');
  assert.equal(answers.at(-1)?.body.model_credential.last_four, '', 'four would be too much of a short one');
  assert.deepEqual(answers[5]?.body, { detail: 'api_key: must be printable ASCII without spaces or line breaks' });
  for (const { text } of answers) assert.equal(text.includes(secret), false, text);
  await server.stop();
  assert.equal(server.output().includes(secret), false, 'not in the log');
  for (const file of readdirSync(server.database.settings.PARLEY_DATA_DIR, { recursive: true, withFileTypes: true })) {
    if (!file.isFile()) continue;
    assert.equal(readFileSync(join(file.parentPath, file.name)).includes(secret), false, `not in ${file.name}`);
  }
});
