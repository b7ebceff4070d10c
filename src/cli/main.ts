import { CommanderError } from 'commander';
import { errorCode, errorMessage } from '../errors.ts';
import { oneLine } from './print.ts';
import { program } from './program.ts';

// EPIPE: the program that reads the output has ended, as in `parley sessions tail ... | head`.
process.stdout.on('error', (error) => {
  if (errorCode(error) === 'EPIPE') process.exit();
  process.stderr.write(`parley: standard output: ${errorMessage(error)}\n`);
  process.exit(1);
});

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) process.stderr.write(`parley: ${oneLine(errorMessage(error))}\n`);
  process.exitCode = error instanceof CommanderError ? error.exitCode : 1;
}
