import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { call, callList, download } from '../api.ts';
import { day } from '../given.ts';
import { harmlessStream, jsonText, print } from '../print.ts';

export function auditCommands(program: Command): void {
  const audit = program.command('audit').description('audit log');
  audit
    .command('export')
    .description('export events as CSV, or as JSON with --json')
    .option('--out <file>', 'write to a file instead of standard output')
    .option('--action <action>', 'only events with this action, such as api_key.created')
    .option('--from <date>', 'first day, YYYY-MM-DD in UTC')
    .option('--to <date>', 'last day, YYYY-MM-DD in UTC')
    .action(async (options: { out?: string; action?: string; from?: string; to?: string }, command: Command) => {
      const query = new URLSearchParams();
      if (options.action !== undefined) query.set('event_action', options.action);
      if (options.from !== undefined) query.set('from', day('--from', options.from));
      if (options.to !== undefined) query.set('to', day('--to', options.to));
      // Opened before the request, since the server records every export: none should be made that cannot be written. It is emptied
      // only when the new content is there.
      const file = options.out === undefined ? undefined : await open(options.out, 'a');
      const { json } = command.optsWithGlobals<{ json?: boolean }>();
      const events = json
        ? [`${jsonText(await callList(`/api/audit_events?${query}&limit=500`))}\n`]
        : await download(`/api/audit_events.csv?${query}`);
      // A pipe or a terminal cannot be truncated.
      if ((await file?.stat())?.isFile()) await file?.truncate();
      const written = file === undefined && process.stdout.isTTY ? harmlessStream(events) : events;
      await pipeline(written, file?.createWriteStream() ?? process.stdout, { end: file !== undefined });
    });
  audit
    .command('verify')
    .description('verify that no event was changed or removed')
    .option('--head <hash>', 'the head of an earlier verification, kept elsewhere: shows whether events at the end were removed')
    .action(async (options: { head?: string }, command: Command) => {
      const query = new URLSearchParams(options);
      const answer = await call<Verification>('GET', `/api/audit_events/verification?${query}`);
      print(command, answer, () => describe(answer));
      if (!answer.valid) process.exitCode = 1;
    });
}

interface Verification {
  valid: boolean;
  checked: number;
  head: string;
  broken: unknown;
}

function describe({ valid, checked, head, broken }: Verification): string {
  if (valid) return `The chain is intact: ${checked} events. Keep its head elsewhere and give it with --head the next time: ${head}`;
  if (broken !== null) return `The chain is broken: ${JSON.stringify(broken)}`;
  return 'The chain was cut off: no event has the hash that was given with --head.';
}
