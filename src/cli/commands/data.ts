import type { Command } from 'commander';
import { rotateSecretKey } from '../../accounts/rotate-secret-key.ts';
import { createSecretBox, loadSecretKey } from '../../accounts/secret-box.ts';
import { loadConfig } from '../../config.ts';
import { backup, restore } from '../../database/backup.ts';
import { openDatabase } from '../../database/open.ts';
import { parseSecretKey } from '../../setting-parsers.ts';
import { secretFromInput } from '../given.ts';
import { print } from '../print.ts';

/** What works on the data itself, with the server's own settings rather than over HTTP. */
export function dataCommands(program: Command): void {
  program
    .command('backup <folder>')
    .description('write the database and its secret key into a folder (stop the server first when the database is embedded)')
    .action(async (folder: string, _options, command: Command) => {
      await backup(loadConfig(), folder);
      print(command, { folder }, () => `Backed up into ${folder}. Keep it as safe as the server.`);
    });
  program
    .command('restore <folder>')
    .description('bring a backup back, into an empty data directory or database')
    .action(async (folder: string, _options, command: Command) => {
      await restore(loadConfig(), folder);
      print(command, { folder }, () => 'Restored. Start the server.');
    });
  program
    .command('rotate-secret-key')
    .description('encrypt what is stored with another key, which is read from standard input; stop every server first')
    .action(async (_options, command: Command) => {
      const config = loadConfig();
      const next = createSecretBox(parseSecretKey(await secretFromInput('parley rotate-secret-key')));
      const { box } = await loadSecretKey(config);
      const database = await openDatabase(config);
      try {
        const answer = await rotateSecretKey(database, box, next);
        print(
          command,
          answer,
          () => `Encrypted ${answer.resealed} secrets anew. Set PARLEY_SECRET_KEY to the new key and start the server.`,
        );
      } finally {
        await database.close();
      }
    });
}
