// The client's types against the server's own document: what is written by hand may say more than it, never something else.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type * as client from '../../../client/src/index.ts';
import { clientTypes } from '../../../scripts/client-types.ts';
import { startApp } from '../../support/app.ts';

type Schemas = client.Schemas;
/** True when a value of `Ours` is one of the document's, and neither side has a field that the other lacks. */
type Fits<Ours, Document> = [Ours] extends [Document]
  ? [keyof Ours] extends [keyof Document]
    ? [keyof Document] extends [keyof Ours]
      ? true
      : false
    : false
  : false;

// What the server answers with.
const answers: {
  session: Fits<client.Session, Schemas['Session']>;
  list: Fits<client.SessionList, Schemas['SessionList']>;
  transcript: Fits<client.Transcript, Schemas['Transcript']>;
  reply: Fits<client.Reply, Schemas['Message']>;
  resolution: Fits<client.Resolution, Schemas['Resolution']>;
  managed: Fits<client.ManagedSession, Schemas['ManagedSession']>;
  managedList: Fits<client.ManagedList, Schemas['ManagedSessionList']>;
  managedTranscript: Fits<client.ManagedTranscript, Schemas['ManagedTranscript']>;
  token: Fits<client.SessionToken, Schemas['SessionToken']>;
} = {
  session: true,
  list: true,
  transcript: true,
  reply: true,
  resolution: true,
  managed: true,
  managedList: true,
  managedTranscript: true,
  token: true,
};

// What the client sends.
const requests: {
  create: Fits<client.CreateSession, Schemas['CreateSession']>;
  mint: Fits<client.MintSessionToken, Schemas['MintSessionToken']>;
  managed: Fits<client.CreateManagedSession, Schemas['CreateManagedSession']>;
  send: [client.SendMessage] extends [Schemas['SendMessage']] ? true : false;
  event: [client.UserEvent] extends [Schemas['PostEvent']] ? true : false;
} = { create: true, mint: true, managed: true, send: true, event: true };

test('the types that are written by hand fit the document', () => {
  assert.ok(Object.values({ ...answers, ...requests }).every(Boolean));
});

test('the generated types are those of the document that the server serves now', async () => {
  const app = await startApp({ after });
  const document = await app.request('GET', '/openapi.json');
  const written = readFileSync(join(import.meta.dirname, '../../../client/src/openapi.ts'), 'utf8');
  assert.ok(written === clientTypes(JSON.parse(document.text)), 'client/src/openapi.ts is out of date: npm run generate');
});

test('a project whose tools do not read `exports` finds the same files', () => {
  const { main, types, exports } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../client/package.json'), 'utf8'));
  assert.deepEqual({ types, default: main }, exports['.']);
});
