import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import type { Command } from 'commander';
import { type Config, describeIdleSettings, loadClientSettings, loadConfig } from '../../config.ts';
import type { Database } from '../../database/database.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import { authorization, describeNotFound, describeRefusal, describeStranger, reach } from '../api.ts';
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
  const get = (path: string, headers: Record<string, string> = {}) => reach(path, { headers, signal: AbortSignal.timeout(5_000) });
  return [
    await check('server', async () => {
      const response = await get('/readyz');
      const text = await response.text();
      if (!/^\{"(status|detail)":/.test(text)) throw new Error(describeStranger());
      if (response.status === 404) throw new Error(describeNotFound('/readyz'));
      if (response.status !== 200) throw new Error(`not ready: ${text}`);
      return `ready at ${loadClientSettings().url}`;
    }),
    await check('API key', async () => {
      const path = '/api/organization';
      const response = await get(path, authorization('PARLEY_API_KEY'));
      if (response.ok) return 'accepted';
      const refusal = await describeRefusal(response, 'PARLEY_API_KEY', path);
      if (response.status === 403 && !refusal.includes('suspended')) return 'accepted, without the scope organization:read';
      throw new Error(refusal);
    }),
  ];
}
