import type { Command } from 'commander';
import { rotateSecretKey } from '../../accounts/rotate-secret-key.ts';
import { compareSecretKey, createSecretBox, loadSecretKey } from '../../accounts/secret-box.ts';
import { type Config, loadConfig } from '../../config.ts';
import { backup, keyInUse, requireDatabase, restore } from '../../database/backup.ts';
import type { Database } from '../../database/database.ts';
import { openDatabase } from '../../database/open.ts';
import { parseSecretKey } from '../../setting-parsers.ts';
import { secretFromInput } from '../given.ts';
import { print } from '../print.ts';

/** What works on the data itself, with the server's own settings rather than over HTTP. */
export function dataCommands(program: Command): void {
  program
    .command('backup <folder>')
    .description('write the database and its secret key to a folder; with the embedded database, stop the server first')
    .action(async (folder: string, _options, command: Command) => {
      const config = loadConfig();
      const { hasKey } = await backup(config, folder, { check: (database) => checkKeyInUse(config, database) });
      const secretKey = hasKey
        ? 'It contains the secret key: protect it as you protect the server.'
        : 'It does not contain the secret key, which is not set here: keep that too, or stored credentials are lost.';
      print(command, { folder, has_secret_key: hasKey }, () => `Backed up to ${folder}. ${secretKey}`);
    });
  program
    .command('restore <folder>')
    .description('restore a backup into an empty data directory or database')
    .action(async (folder: string, _options, command: Command) => {
      await restore(loadConfig(), folder);
      print(command, { folder }, () => 'Restored. You can start the server.');
    });
  program
    .command('rotate-secret-key')
    .description('re-encrypt stored secrets with a new key, read from standard input; stop every server first')
    .action(async (_options, command: Command) => {
      const config = loadConfig();
      const next = createSecretBox(parseSecretKey(await secretFromInput('parley rotate-secret-key')));
      await requireDatabase(config);
      if ((await keyInUse(config)) === undefined) throw new Error('PARLEY_SECRET_KEY is not set, and PARLEY_DATA_DIR has no secret.key');
      const { box } = await loadSecretKey(config);
      const database = await openDatabase(config);
      try {
        const answer = await rotateSecretKey(database, box, next);
        print(command, answer, () => `Re-encrypted ${answer.resealed} secrets. Set PARLEY_SECRET_KEY to the new key and start the server.`);
      } finally {
        await database.close();
      }
    });
}

/** With another key than that of the database nobody could start on what is restored, and would learn of it only then. */
async function checkKeyInUse(config: Config, database: Database): Promise<void> {
  if ((await keyInUse(config)) === undefined) return;
  const { box, origin } = await loadSecretKey(config);
  await compareSecretKey(database, box, origin);
}
