import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import { vacuum } from '../../../src/database/upkeep.ts';

test('upkeep makes room for what updates leave behind, and tells the planner how large tables are', async () => {
  const pglite = new PGlite();
  await pglite.exec(`
    create table session (id integer primary key, updated_at bigint not null);
    create index by_activity on session (updated_at);
    insert into session select n, n from generate_series(1, 200) n`);
  let clock = 1_000;
  const touchAll = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1, clock += 1_000) await pglite.exec(`update session set updated_at = ${clock} + id`);
  };
  const bytes = async () => (await pglite.query<{ size: number }>(`select pg_indexes_size('session')::integer as size`)).rows[0]?.size ?? 0;

  for (let hour = 0; hour < 3; hour += 1) {
    await touchAll(20);
    await vacuum(pglite, () => {});
  }
  const kept = await bytes();
  for (let hour = 0; hour < 6; hour += 1) {
    await touchAll(20);
    await vacuum(pglite, () => {});
  }
  assert.ok((await bytes()) <= kept, `${await bytes()} bytes after ${kept}`);
  await touchAll(120);
  assert.ok((await bytes()) > kept, 'without upkeep they grow');
  const { rows } = await pglite.query<{ reltuples: number }>(`select reltuples from pg_class where relname = 'session'`);
  assert.equal(rows[0]?.reltuples, 200);
  const full = () => {
    throw new Error('full');
  };
  await assert.rejects(vacuum(pglite, full), /full/, 'on a full disk nothing is written');
  await pglite.close();
});
