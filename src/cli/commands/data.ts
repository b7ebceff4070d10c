import type { Command } from 'commander';
import { secretFromInput } from '../given.ts';
import { print } from '../print.ts';

/** Commands that open the database themselves, with the server's settings, instead of sending requests. */
export function dataCommands(program: Command): void {
  program
    .command('backup <folder>')
    .description('write the database and its secret key to a folder; with the embedded database, stop the server first')
    .action(async (folder: string, _options, command: Command) => {
      const { backUpTo } = await loadOwnData();
      const { hasKey } = await backUpTo(folder);
      const secretKey = hasKey
        ? 'It contains the secret key: protect it as you protect the server.'
        : 'It does not contain the secret key, which is not set here: keep that too, or stored credentials are lost.';
      print(command, { folder, has_secret_key: hasKey }, () => `Backed up to ${folder}. ${secretKey}`);
    });
  program
    .command('restore <folder>')
    .description('restore a backup into an empty data directory or database')
    .action(async (folder: string, _options, command: Command) => {
      const { restoreFrom } = await loadOwnData();
      await restoreFrom(folder);
      print(command, { folder }, () => 'Restored. You can start the server.');
    });
  program
    .command('rotate-secret-key')
    .description('re-encrypt stored secrets with a new key, read from standard input; stop every server first')
    .action(async (_options, command: Command) => {
      const { rotateSecretKeyTo } = await loadOwnData();
      const answer = await rotateSecretKeyTo(() => secretFromInput('parley rotate-secret-key'));
      const next =
        'Set PARLEY_SECRET_KEY to the new key or, if it was never set, put the key into secret.key of the data directory; then start the server.';
      print(command, answer, () => `Re-encrypted ${answer.resealed} secrets. ${next}`);
    });
}

/** Loaded on demand: three hundred modules, which no other command needs. */
function loadOwnData() {
  return import('../own-data.ts');
}
