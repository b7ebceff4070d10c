// A password that is changed: whoever knew the old one is signed out.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { browserOf, password, signIn } from '../../support/members.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');

test('whoever changes their password stays signed in, and every other session of theirs ends', async () => {
  const email = 'changer@example.com';
  const elsewhere = await browserOf(parley, acme, email, 'member');
  const headers = await signIn(parley, email);
  const changed = await parley.call('POST', '/auth/change-password', {
    headers: { ...headers, origin: 'http://localhost:80' },
    body: { currentPassword: password, newPassword: 'another horse battery staple' },
  });
  assert.equal(changed.status, 200, changed.text);
  const cookie = String(changed.headers['set-cookie']).split(';')[0] ?? '';
  const status = async (own: Record<string, string>) => (await parley.call('GET', '/dashboard/session', { headers: own })).status;
  assert.deepEqual([await status({ ...headers, cookie }), await status(elsewhere)], [200, 401]);
});

test('a password that is changed while it is checked opens no session', async () => {
  const email = 'racer@example.com';
  await browserOf(parley, acme, email, 'member');
  const { db } = parley.context.database;
  await sql`delete from user_sessions`.execute(db);
  // As if the change came between the check of the password and the new session.
  await sql`create function change_password() returns trigger language plpgsql as
    $$ begin update user_accounts set password = 'another' where user_id = new.user_id; return new; end $$`.execute(db);
  await sql`create trigger change_password before insert on user_sessions for each row execute function change_password()`.execute(db);
  const answer = await parley.call('POST', '/auth/sign-in/email', { body: { email: email.toUpperCase(), password } });
  await sql`drop function change_password cascade`.execute(db);
  assert.deepEqual([answer.status, answer.text], [401, '{"detail":"Invalid email or password"}']);
  assert.equal(answer.headers['set-cookie'], undefined);
  assert.deepEqual(await db.selectFrom('user_sessions').select('id').execute(), []);
});
