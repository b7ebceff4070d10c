import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { acceptInvitation, prepareAcceptance } from '../../../src/accounts/accept-invitation.ts';
import { Directory } from '../../../src/accounts/directory.ts';
import { invite } from '../../../src/accounts/invitations.ts';
import { changeRole, removeMember } from '../../../src/accounts/members.ts';
import { createOrganization } from '../../../src/accounts/organizations.ts';
import { createSecretBox } from '../../../src/accounts/secret-box.ts';
import { SignIn } from '../../../src/accounts/sign-in.ts';
import { loadConfig } from '../../../src/config.ts';
import type { Database } from '../../../src/database/database.ts';
import { ServiceError } from '../../../src/errors.ts';
import { deleteExpiredRows } from '../../../src/start/expired-rows.ts';
import { engine, openTestDatabase } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const dataDirectory = mkdtempSync(join(tmpdir(), 'parley-'));
const config = loadConfig({ PARLEY_DATA_DIR: dataDirectory });
let database: Database;
let directory: Directory;
let signIn: SignIn;
let orgId: number;
const at = new Date();

before(async () => {
  database = await openTestDatabase();
  directory = new Directory(database, 'proc_1');
  signIn = new SignIn(config, database, directory, createSecretBox(Buffer.alloc(32, 1)));
  orgId = (await createOrganization(database.db, { slug: 'acme', name: 'Acme', at })).id;
});
after(async () => {
  await database.close();
  rmSync(dataDirectory, { recursive: true });
});

async function joinAs(role: 'owner' | 'member', email: string, password: string): Promise<string> {
  const { token } = await directory.change(orgId, (db) => invite(db, { orgId, at }, { email: undefined, role, highestRole: role }));
  const input = { token, email, name: 'Ada', password };
  const acceptance = await prepareAcceptance(database.db, at, input, () => {});
  assert.ok(acceptance);
  const member = await directory.change(orgId, (db) => acceptInvitation(db, { orgId, at }, acceptance));
  assert.ok(member);
  const others = { ...input, email: 'somebody@example.com' };
  assert.equal(await prepareAcceptance(database.db, at, others, () => {}), undefined, 'a link is for one person');
  return member.userId;
}

function signInRequest(email: string, password: string, client: string): Request {
  return new Request('http://127.0.0.1:8080/auth/sign-in/email', {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: 'http://127.0.0.1:8080', 'x-parley-client': client },
    body: JSON.stringify({ email, password }),
  });
}

test('an owner joins by a link, signs in and acts with every scope; the cookie is strict', async () => {
  const userId = await joinAs('owner', 'Ada@Example.com', 'correct horse battery');
  const response = await signIn.handle(signInRequest('ada@example.com', 'correct horse battery', '192.0.2.1'));
  assert.equal(response.status, 200, await response.clone().text());
  const cookie = response.headers.get('set-cookie') ?? '';
  assert.match(cookie, /HttpOnly/i);
  assert.match(cookie, /SameSite=Strict/i);
  const headers = new Headers({ cookie: cookie.split(';')[0] ?? '' });
  const signedIn = await signIn.memberOf(headers, undefined);
  assert.equal(signedIn?.principal.userId, userId);
  assert.equal(signedIn?.principal.role, 'owner');
  assert.equal(signedIn?.principal.scopes.has('api_keys:write'), true);
  assert.equal(await signIn.memberOf(headers, 'other'), undefined);
  assert.equal(await signIn.memberOf(new Headers({ cookie: `${cookie.split(';')[0]}x` }), undefined), undefined);
});

test('attempts to join, from however many addresses, do not make the server forget guesses at a password', () => {
  const tooMany = (error: unknown) => error instanceof ServiceError && error.kind === 'rate-limited';
  for (let guess = 0; guess < 10; guess += 1) signIn.guesses.count('Guessed@example.com');
  for (let client = 0; client < 20_000; client += 1) signIn.joining.count(`2001:db8::${client.toString(16)}`);
  assert.throws(() => signIn.guesses.count('guessed@example.com'), tooMany);
});

test('the counts of requests by client, which anybody can add to, are kept for an hour', async () => {
  const counted = (key: string, minutesAgo: number) => ({ id: key, key, count: 1, last_request: String(Date.now() - minutesAgo * 60_000) });
  const rows = [counted('old', 61), counted('older', 1_000), counted('recent', 59)];
  for (const { id, key, count, last_request } of rows)
    await sql`insert into user_rate_limits (id, key, count, last_request) values (${id}, ${key}, ${count}, ${last_request})`.execute(
      database.db,
    );
  await deleteExpiredRows(database.db, { batch: 1 });
  const left = await sql<{ key: string }>`select key from user_rate_limits where key in ('old', 'older', 'recent')`.execute(database.db);
  assert.deepEqual(left.rows, [{ key: 'recent' }]);
});

test('the last owner stays', async () => {
  const userId = await joinAs('owner', 'bob@example.com', 'another long password');
  await directory.change(orgId, (db) => changeRole(db, { orgId, at }, userId, 'member', () => {}));
  const [owner] = await database.db.selectFrom('members').select('user_id').where('role', '=', 'owner').execute();
  await assert.rejects(
    directory.change(orgId, (db) =>
      removeMember(db, { orgId, at }, owner?.user_id ?? '', { highestRole: 'owner', assertMayRevoke: () => {} }),
    ),
    (error) => error instanceof ServiceError && error.kind === 'conflict',
  );
});

test('guesses from one address are slowed down, and passwords are not stored as they are', async () => {
  const statuses: number[] = [];
  for (let guess = 0; guess < 32; guess += 1) {
    statuses.push((await signIn.handle(signInRequest('ada@example.com', `wrong password ${guess}`, '192.0.2.9'))).status);
  }
  assert.equal(statuses[0], 401);
  assert.equal(statuses.at(-1), 429);
  const accounts = await database.db.selectFrom('user_accounts').select('password').execute();
  for (const account of accounts) assert.doesNotMatch(account.password ?? '', /password|horse/);
});

test('an account stays that joins another org while its last one removes it', {
  skip: engine === 'pglite' && 'the embedded engine does one after the other',
}, async () => {
  const { db } = database;
  const userId = await joinAs('member', 'una@example.com', 'correct horse battery');
  const other = await createOrganization(db, { slug: 'other', name: 'Other', at });
  const removing = Promise.withResolvers<boolean>();
  await db.transaction().execute(async (joining) => {
    await joining.insertInto('members').values({ org_id: other.id, user_id: userId, role: 'member', created_at: at }).execute();
    const removal = db
      .transaction()
      .execute((leaving) => removeMember(leaving, { orgId, at }, userId, { highestRole: 'owner', assertMayRevoke: () => {} }));
    removal.then(removing.resolve, removing.reject);
    const waiting = sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting.execute(db)).rows.length > 0);
  });
  assert.equal(await removing.promise, true);
  assert.deepEqual(await db.selectFrom('members').select('org_id').where('user_id', '=', userId).execute(), [{ org_id: other.id }]);
});

test('whose account goes while their password is checked is told what any stranger is', async () => {
  await joinAs('member', 'gone@example.com', 'correct horse battery');
  await sql`create function forget_user() returns trigger language plpgsql as
    $$ begin delete from users where id = new.user_id; return new; end $$`.execute(database.db);
  await sql`create trigger forget_user before insert on user_sessions for each row execute function forget_user()`.execute(database.db);
  await assert.rejects(
    signIn.handle(signInRequest('gone@example.com', 'correct horse battery', '192.0.2.3')),
    (error) => error instanceof ServiceError && error.kind === 'unauthorized' && error.message === 'Invalid email or password',
  );
  await sql`drop function forget_user cascade`.execute(database.db);
});
