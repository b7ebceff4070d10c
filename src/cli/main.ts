import { Command, CommanderError } from 'commander';
import { errorMessage } from '../errors.ts';
import { accountCommands } from './commands/accounts.ts';
import { auditCommands } from './commands/audit.ts';
import { chatCommand } from './commands/chat.ts';
import { completionCommand } from './commands/completion.ts';
import { dataCommands } from './commands/data.ts';
import { doctorCommand } from './commands/doctor.ts';
import { releaseCommands } from './commands/releases.ts';
import { serveCommand } from './commands/serve.ts';
import { sessionCommands } from './commands/sessions.ts';
import { webhookCommands } from './commands/webhooks.ts';

const program = new Command('parley')
  .description('Talk to a Parley server and manage it. PARLEY_URL and PARLEY_API_KEY say which one and as whom.')
  .option('--json', 'print JSON instead of words')
  .showHelpAfterError()
  .exitOverride();

for (const add of [
  serveCommand,
  chatCommand,
  accountCommands,
  releaseCommands,
  sessionCommands,
  webhookCommands,
  auditCommands,
  dataCommands,
  doctorCommand,
  completionCommand,
]) {
  add(program);
}

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) process.stderr.write(`parley: ${errorMessage(error)}\n`);
  process.exitCode = error instanceof CommanderError ? error.exitCode : 1;
}
