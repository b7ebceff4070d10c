// `npm run generate`: writes client/src/openapi.ts from the server's OpenAPI document, and docs/schema.sql from its database.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { createContext } from '../src/start/create-context.ts';
import { clientTypes } from './client-types.ts';
import { schemaText } from './schema-text.ts';

const directory = mkdtempSync(join(tmpdir(), 'parley-generate-'));
const context = await createContext(loadConfig({ PARLEY_DATA_DIR: directory, PARLEY_LOG_LEVEL: 'error' }));
const app = await createApp(context);
const document = await app.inject('/openapi.json');
writeFileSync(join(import.meta.dirname, '../client/src/openapi.ts'), clientTypes(document.json()));
writeFileSync(join(import.meta.dirname, '../docs/schema.sql'), await schemaText(context.database.db));
await app.close();
await context.close();
rmSync(directory, { recursive: true });
