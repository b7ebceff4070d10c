import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import type { Command } from 'commander';
import { type Config, describeIdleSettings, loadClientSettings, loadConfig } from '../../config.ts';
import type { Database } from '../../database/database.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import { checkKey, describeRedirect } from '../api.ts';
import { oneLine, print } from '../print.ts';

interface Finding {
  check: string;
  ok: boolean;
  says: string;
}

export function doctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('check the installation and report what to fix')
    .action(async (_options, command: Command) => {
      const findings = [
        await check('Node', checkNode),
        await check('settings', checkSettings),
        ...(await checkData()),
        ...(await checkServer()),
      ];
      print(command, findings, () => findings.map(({ check: name, ok, says }) => `${ok ? 'ok  ' : 'FAIL'}  ${name}: ${says}`).join('\n'));
      if (findings.some((finding) => !finding.ok)) process.exitCode = 1;
    });
}

/** `inspect` returns what is fine, or throws what to fix. */
async function check(name: string, inspect: () => string | Promise<string>): Promise<Finding> {
  try {
    return { check: name, ok: true, says: await inspect() };
  } catch (error) {
    return { check: name, ok: false, says: oneLine(errorMessage(error)) };
  }
}

function checkNode(): string {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < 24) throw new Error(`the server needs Node 24, this is ${process.version}; npm install installs it`);
  return process.version;
}

function checkSettings(): string {
  const config = loadConfig();
  const idle = describeIdleSettings(config);
  if (idle.length > 0) throw new Error(idle.join(' '));
  return config.PARLEY_SECRET_KEY === undefined ? 'valid; PARLEY_SECRET_KEY is not set, so back up secret.key' : 'valid';
}

/** Settings that are not valid name no data to look at. The line before says what to change. */
async function checkData(): Promise<Finding[]> {
  let config: Config;
  try {
    config = loadConfig();
  } catch {
    return [];
  }
  return [await check('data directory', () => checkDataDirectory(config)), await check('database', () => checkDatabase(config))];
}

async function checkDataDirectory(config: Config): Promise<string> {
  const { DATABASE_URL, PARLEY_SECRET_KEY, PARLEY_API_KEY, PARLEY_OPERATOR_KEY, PARLEY_DATA_DIR: directory } = config;
  if (![DATABASE_URL, PARLEY_SECRET_KEY, PARLEY_API_KEY, PARLEY_OPERATOR_KEY].includes(undefined))
    return 'not used: data is in PostgreSQL, and all keys are set';
  try {
    await access(directory, constants.R_OK | constants.W_OK);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return `${directory} does not exist; a start creates it when it needs it`;
    throw new Error(`${directory} is not writable (PARLEY_DATA_DIR)`, { cause: error });
  }
  if (!(await stat(directory)).isDirectory()) throw new Error(`${directory} is not a directory (PARLEY_DATA_DIR)`);
  const { bavail, bsize } = await statfs(directory);
  const freeMiB = Math.round((bavail * bsize) / 2 ** 20);
  if (freeMiB < 512) throw new Error(`only ${freeMiB} MiB are free in ${directory}`);
  return `${directory}, ${freeMiB} MiB free`;
}

async function checkDatabase(config: Config): Promise<string> {
  // The server may have it open, and only one process can. Its readiness, checked below, covers the database.
  if (config.DATABASE_URL === undefined) return 'embedded, in the data directory';
  const { openDatabase } = await import('../../database/open.ts');
  const { openBus } = await import('../../database/bus.ts');
  const { checkWritable } = await import('../../database/migrate.ts');
  const { createLogger } = await import('../../telemetry/logger.ts');
  await using opened = new AsyncDisposableStack();
  const postgres = await openDatabase(config);
  opened.defer(() => postgres.close());
  await checkWritable(postgres);
  // If REDIS_URL is set, the server does not start without Redis.
  const bus = await openBus(postgres, config.REDIS_URL, createLogger('silent'));
  opened.defer(() => bus.close());
  await checkClock(postgres);
  const { isInstalled } = await import('../../database/backup.ts');
  const migrations = (await isInstalled(config)) ? await checkInstallation(config, postgres) : '';
  return `${config.REDIS_URL === undefined ? 'PostgreSQL' : 'PostgreSQL and Redis'}, reachable${migrations}`;
}

/** Session tokens and the signatures of webhooks are only as good as the clock of the process that makes or checks them. */
async function checkClock(postgres: Database): Promise<void> {
  const before = Date.now();
  const { now } = await postgres.db.selectNoFrom(({ fn }) => fn<Date>('clock_timestamp').as('now')).executeTakeFirstOrThrow();
  const theirs = now.getTime();
  const seconds = Math.round(Math.max(before - theirs, theirs - Date.now()) / 1_000);
  if (seconds > 10) throw new Error(`the clock here and that of PostgreSQL differ by ${seconds} s: synchronize both, for example with NTP`);
}

/** A server does not start with another secret key than the database's, and should not start if it is older than the database. */
async function checkInstallation(config: Config, postgres: Database): Promise<string> {
  const { compareSecretKey, findSecretKey, refuseNewKey } = await import('../../accounts/secret-key.ts');
  const key = await findSecretKey(config);
  await (key === undefined ? refuseNewKey(config, postgres) : compareSecretKey(postgres, key));
  const { compareMigrations, describeNewer } = await import('../../database/migrate.ts');
  const { missing, foreign } = await compareMigrations(postgres.db);
  const newer = describeNewer(foreign);
  if (newer !== undefined) throw new Error(newer);
  return missing.length === 0 ? '' : `; the next start migrates it (${missing.join(', ')})`;
}

/** Checks the server over HTTP, as a client would use it. */
async function checkServer(): Promise<Finding[]> {
  const { url, apiKey } = loadClientSettings();
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, { headers, redirect: 'manual', signal: AbortSignal.timeout(5_000) }).catch(
      (error: unknown) => {
        throw new Error(`no server at ${url}; start it with npm start, or set PARLEY_URL`, { cause: error });
      },
    );
    const redirect = describeRedirect(response, url);
    if (redirect !== undefined) throw new Error(redirect);
    return { status: response.status, text: await response.text() };
  };
  return [
    await check('server', async () => {
      const { status, text } = await get('/readyz');
      if (!/^\{"(status|detail)":/.test(text))
        throw new Error(`what answers at ${url} is not Parley; set PARLEY_URL, or PORT to a free one`);
      if (status !== 200) throw new Error(`not ready: ${text}`);
      return `ready at ${url}`;
    }),
    await check('API key', async () => {
      if (apiKey === undefined) throw new Error('PARLEY_API_KEY is not set');
      checkKey('PARLEY_API_KEY', apiKey);
      const { status, text } = await get('/api/organization', { authorization: `Bearer ${apiKey}` });
      if (status === 401) throw new Error('the server does not accept this PARLEY_API_KEY');
      if (status === 403 && !text.includes('suspended')) return 'accepted, without the scope organization:read';
      if (status !== 200) throw new Error(`the server answered ${status} ${text}`);
      return 'accepted';
    }),
  ];
}
