import { createRequire } from 'node:module';
import { Command } from 'commander';
import { accountCommands } from './commands/accounts.ts';
import { auditCommands } from './commands/audit.ts';
import { chatCommand } from './commands/chat.ts';
import { completionCommand } from './commands/completion.ts';
import { dataCommands } from './commands/data.ts';
import { doctorCommand } from './commands/doctor.ts';
import { memberCommands } from './commands/members.ts';
import { organizationCommands } from './commands/organizations.ts';
import { releaseCommands } from './commands/releases.ts';
import { serveCommand } from './commands/serve.ts';
import { sessionCommands } from './commands/sessions.ts';
import { spendingCommands } from './commands/spending.ts';
import { webhookCommands } from './commands/webhooks.ts';

const { version } = createRequire(import.meta.url)('../../package.json');

export const program = new Command('parley')
  .description(
    'Talk to and manage the Parley server at PARLEY_URL (default: what HOST and PORT say, or http://127.0.0.1:8080) with the key in PARLEY_API_KEY.',
  )
  .version(version, '-V, --version', 'print the version')
  .option('--json', 'print JSON')
  // Only a hint: a page of help would push the error message off the screen.
  .showHelpAfterError('Run it with --help for usage.')
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'parley: ')) })
  .exitOverride();

for (const add of [
  serveCommand,
  chatCommand,
  organizationCommands,
  memberCommands,
  accountCommands,
  spendingCommands,
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
