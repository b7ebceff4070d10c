// Checks that nothing of an organization was changed, in any table.
import assert from 'node:assert/strict';
import { sql } from 'kysely';
import type { Db } from '../../src/database/database.ts';

/** Asserts that `work` changes no row of this organization. */
export async function unchanged(db: Db, orgId: number, work: () => Promise<void>): Promise<void> {
  const before = await rowsOf(db, orgId);
  await work();
  assert.deepEqual(await rowsOf(db, orgId), before);
}

/** Every row that belongs to the organization, as one text for each table. */
async function rowsOf(db: Db, orgId: number): Promise<Record<string, string>> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'org_id' order by 1`.execute(
    db,
  );
  const rows: Record<string, string> = {};
  for (const { name } of tables) {
    const all = await sql<{ row: object }>`select row_to_json(t) as row from ${sql.table(name)} t where org_id = ${orgId}`.execute(db);
    rows[name] = all.rows
      .map(({ row }) => JSON.stringify({ ...row, last_used_at: null }))
      .sort()
      .join('\n');
  }
  assert.ok(Object.keys(rows).length > 12, 'the tables of customer data');
  return rows;
}
