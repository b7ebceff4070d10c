import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { auditCsv } from '../../../src/audit/csv.ts';
import { type AuditLine, estimateAuditRows, newestAuditId, readAllAudit, readAuditPage } from '../../../src/audit/read.ts';
import { recordAudit } from '../../../src/audit/record.ts';
import { verifyAuditChain } from '../../../src/audit/verify.ts';
import { validDay } from '../../../src/clock.ts';
import type { Database } from '../../../src/database/database.ts';
import { openTestDatabase } from '../../support/engine.ts';

let database: Database;
const at = new Date('2026-03-01T12:00:00.123Z');

before(async () => {
  database = await openTestDatabase();
});
after(() => database.close());

async function record(orgId: number, name: string, when = at): Promise<void> {
  await database.db
    .transaction()
    .execute((db) =>
      recordAudit(
        db,
        { orgId, at: when, apiKeyPrefix: 'svc_live_abc', userAgent: 'x'.repeat(600) },
        { action: 'agent.created', subjectType: 'agent', subjectId: name, metadata: { name, left_out: undefined } },
      ),
    );
}

test('a chain of many writers holds, each org its own', async () => {
  await Promise.all(Array.from({ length: 20 }, (_, index) => record(1 + (index % 2), `agent ${index}`)));
  for (const orgId of [1, 2]) {
    const verdict = await verifyAuditChain(database.db, orgId);
    assert.deepEqual([verdict.valid, verdict.checked], [true, 10]);
  }
  for (const [head, isKept] of [
    ['0'.repeat(64), true],
    ['f'.repeat(64), false],
  ] as const) {
    const { valid, hasKeptHead } = await verifyAuditChain(database.db, 1, head);
    assert.deepEqual([valid, hasKeptHead], [isKept, isKept], 'the head of a log that was empty is one of its heads');
  }
});

test('the database refuses to change or delete what is recorded', async () => {
  await assert.rejects(sql`update audit_events set action = 'x'`.execute(database.db), /append-only/);
  await assert.rejects(sql`delete from audit_events`.execute(database.db), /append-only/);
  await assert.rejects(sql`truncate audit_events`.execute(database.db), /append-only/);
});

test('a row changed, or left out, behind the database breaks the chain at that row', async () => {
  for (let index = 0; index < 5; index += 1) await record(3, `agent ${index}`);
  const ids = (await readAuditPage(database.db, 3, {}, { limit: 10, before: undefined })).map((row) => row.id).toReversed();
  await sql`alter table audit_events disable trigger all`.execute(database.db);
  await sql`update audit_events set metadata = '{"name":"another"}' where id = ${ids[2]}`.execute(database.db);
  const { broken } = await verifyAuditChain(database.db, 3);
  assert.deepEqual([broken?.id, broken?.reason], [ids[2], 'its content was changed']);
  await sql`delete from audit_events where id = ${ids[2]}`.execute(database.db);
  await sql`alter table audit_events enable trigger all`.execute(database.db);
  assert.equal((await verifyAuditChain(database.db, 3)).broken?.id, ids[3]);
});

test('days are inclusive and in UTC, and what is no day is none', async () => {
  await record(4, 'evening', new Date('2026-02-28T23:59:59.999Z'));
  await record(4, 'morning', new Date('2026-03-01T00:00:00.000Z'));
  const read = async (from: string, to: string) =>
    (await readAuditPage(database.db, 4, { from, to }, { limit: 10, before: undefined })).map((row) => row.subject_id);
  assert.deepEqual(await read('2026-02-28', '2026-02-28'), ['evening']);
  assert.deepEqual(await read('2026-02-28', '2026-03-01'), ['morning', 'evening']);
  assert.equal(await estimateAuditRows(database.db, 4, { from: '2026-03-01' }), 1);
  for (const text of ['2026-02-30', '2026-13-01', '26-01-01', 'yesterday', '', '2026-01-01T00:00:00Z', undefined])
    assert.equal(validDay(text), undefined);
});

test('more events than are worth counting are estimated', async () => {
  await record(7, 'copied');
  await sql`insert into audit_events (org_id, created_at, action, subject_type, subject_id, metadata, previous_hash, hash)
    select org_id, created_at, action, subject_type, subject_id, metadata, previous_hash, hash
    from audit_events, generate_series(1, 12000) where org_id = 7`.execute(database.db);
  await sql`analyze audit_events`.execute(database.db);
  const estimate = await estimateAuditRows(database.db, 7, {});
  assert.ok(estimate > 11_000 && estimate < 13_000, `${estimate}`);
});

async function* pagesOf(rows: AuditLine[]): AsyncGenerator<AuditLine[]> {
  yield rows;
}

test('an export goes through every page, back from where it began', async () => {
  for (let index = 0; index < 7; index += 1) await record(6, `agent ${index}`);
  const upTo = await newestAuditId(database.db, 6);
  await record(6, 'later');
  const seen: string[] = [];
  for await (const rows of readAllAudit(database.db, 6, {}, upTo, 3)) seen.push(...rows.map((row) => row.subject_id));
  assert.deepEqual(
    seen,
    [6, 5, 4, 3, 2, 1, 0].map((index) => `agent ${index}`),
  );
});

test('cells that a spreadsheet would run are inert, and the text is RFC 4180', async () => {
  const cells = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '\n=1', ' =1', '\uFEFF=1', '＝1', 'plain, "quoted"', 'two\nlines'];
  await record(5, 'any');
  const [row] = await readAuditPage(database.db, 5, {}, { limit: 1, before: undefined });
  assert.ok(row);
  assert.equal(row.user_agent?.length, 512);
  let text = '';
  for await (const chunk of auditCsv(pagesOf(cells.map((cell) => ({ ...row, metadata: '{}', subject_id: cell }))))) text += chunk;
  const [header] = text.split('\r\n');
  assert.equal(header, 'created_at,action,actor_email,api_key_prefix,subject_type,subject_id,ip_address,user_agent,metadata');
  assert.match(text, /^2026-03-01T12:00:00\.123\+00:00,agent\.created,,svc_live_abc,agent,/m);
  for (const cell of cells.slice(0, 10)) assert.ok(text.includes(`'${cell}`), JSON.stringify(cell));
  assert.ok(text.includes('"plain, ""quoted"""'));
  assert.ok(text.includes('"two\nlines"'));
});
