import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { fanOut } from '../../../src/outbox/fan-out.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());
const { db } = database;

test('events become deliveries in small steps, however many endpoints want each', async () => {
  const { rows } = await sql<{ id: number }>`insert into organizations (slug, name) values ('acme', 'Acme') returning id`.execute(db);
  const orgId = rows[0]?.id;
  await sql`insert into webhook_endpoints (org_id, name, url, secret_ciphertext)
    select ${orgId}::integer, 'Hooks', 'https://example.com', '' from generate_series(1, 4)`.execute(db);
  await sql`insert into webhook_events (org_id, type, data, created_at)
    select ${orgId}::integer, 'turn.completed', '{}', now() + number * interval '1 millisecond' from generate_series(1, 7) number`.execute(
    db,
  );
  const steps: [boolean, number][] = [];
  for (let isDone = false; !isDone; ) {
    isDone = await fanOut(db, new Date(Date.now() + 1_000), new Date(0), { events: 5, deliveries: 10 });
    const { count } = await db
      .selectFrom('deliveries')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    steps.push([isDone, count]);
  }
  assert.deepEqual(steps, [
    [false, 12],
    [false, 24],
    [true, 28],
  ]);
});
