import { failed, maxToolOutputCharacters, succeeded, type Tool, type ToolOutcome } from '../tool.ts';
import type { ShellResult } from './bash-messages.ts';
import type { ShellPool } from './bash-pool.ts';
import { excerpt, textField } from './input.ts';
import { changesProblem } from './workspace-changes.ts';

/** A shell that can reach nothing but the files of the workspace. `lineId` says in which line its commands wait for a process. */
export function createBashTool(pool: ShellPool, lineId: number): Tool {
  return {
    name: 'bash',
    description:
      'Run a bash script in a sandbox. The workspace is the current directory (/workspace); files left there are kept for later calls, ' +
      'but not variables, the current directory, file modes, empty directories, symbolic links, or anything outside /workspace. ' +
      `There is no network. A command may take ${pool.timeoutMs / 1_000} s. ` +
      'The usual text tools are there (grep, sed, awk, jq, find, sort, tar, ...), but no compilers, interpreters or package managers.',
    inputSchema: {
      type: 'object',
      properties: { command: { type: 'string', description: 'The script to run' } },
      required: ['command'],
      additionalProperties: false,
    },
    repeatable: false,
    guards: () => true,
    subject: (input) => (textField(input, 'command') ?? '').trim(),
    problem: (input) => (commandOf(input) === undefined ? missing : undefined),
    prompt: (input) => `Run this command?\n${excerpt(textField(input, 'command') ?? '')}`,
    async run(input, { workspace, signal }) {
      const command = commandOf(input);
      if (command === undefined) return failed(missing);
      return pool.run(lineId, command, workspace, signal, async (result) => {
        if (result === 'timed-out') return timedOut(pool);
        if (result === 'crashed') return failed('The shell ended unexpectedly, most likely out of memory. No file was changed.');
        if (result.timedOut) return timedOut(pool);
        const { changes } = result;
        const problem = result.problem ?? (changes.length === 0 ? undefined : changesProblem(await workspace.list(), changes));
        if (problem !== undefined) return failed(`${describe(result)}\n[no file was changed: ${problem}]`);
        const outcome = result.exitCode === 0 ? succeeded(describe(result)) : failed(describe(result));
        return changes.length === 0 ? outcome : { ...outcome, changes: await workspace.storeAhead(changes) };
      });
    },
  };
}

const missing = 'The command is missing';

function commandOf(input: unknown): string | undefined {
  const command = textField(input, 'command');
  return command === undefined || command.trim() === '' ? undefined : command;
}

function timedOut(pool: ShellPool): ToolOutcome {
  return failed(`The command took longer than ${pool.timeoutMs / 1_000} s and was ended. No file was changed.`);
}

/** Both streams, with errors last: a long output is cut so that they fit. */
function describe({ stdout, stdoutCharacters, stderr, exitCode, notes }: ShellResult): string {
  const end = [
    excerpt(stderr.trimEnd(), 5_000),
    ...(exitCode === 0 ? [] : [`[exit code ${exitCode}]`]),
    ...notes.map((note) => `[${note}]`),
  ].filter((line) => line !== '');
  const room = maxToolOutputCharacters - end.join('\n').length - 100;
  const shown =
    stdout.length <= room ? stdout : `${stdout.slice(0, room)}\n[output truncated: ${stdoutCharacters - room} characters left out]`;
  return [shown.trimEnd(), ...end].filter((part) => part !== '').join('\n');
}
