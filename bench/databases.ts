import pg from 'pg';

/** A new database on the server, and its URL. */
export async function createDatabase(serverUrl: string, name: string): Promise<string> {
  await runStatements(serverUrl, [`create database ${name}`]);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

export async function runStatements(url: string, statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}
