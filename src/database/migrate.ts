import { readdir, readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import type { Database, Db } from './database.ts';

const directory = new URL('../../migrations/', import.meta.url);

/** Applies what is missing, each file in a transaction of its own. Safe to run by many processes at once: one waits for the other. */
export async function migrate(database: Database): Promise<void> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).sort();
  await database.exclusively((db, runScript) => applyMissing(db, files, runScript));
}

async function applyMissing(db: Db, files: string[], runScript: (text: string) => Promise<void>): Promise<void> {
  await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(db);
  const { rows } = await sql<{ name: string }>`select name from migrations`.execute(db);
  const applied = new Set(rows.map((row) => row.name));
  for (const file of files) {
    if (applied.has(file)) continue;
    const text = await readFile(new URL(file, directory), 'utf8');
    await runScript(`begin;\n${text}\ninsert into migrations (name) values ('${file}');\ncommit;`);
  }
}
