import { CommanderError } from 'commander';
import { errorMessage } from '../errors.ts';
import { program } from './program.ts';

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) process.stderr.write(`parley: ${errorMessage(error)}\n`);
  process.exitCode = error instanceof CommanderError ? error.exitCode : 1;
}
