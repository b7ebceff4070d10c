import type { Command } from 'commander';

/** A script for bash and zsh that completes the names of commands. */
export function completionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a completion script: source <(parley completion)')
    .action(() => {
      const words = (command: Command) => command.commands.map((sub) => sub.name()).join(' ');
      const cases = program.commands
        .filter((command) => command.commands.length > 0)
        .map((command) => `    ${command.name()}) words="${words(command)}" ;;`);
      const script = [
        '_parley() {',
        `  local words="${words(program)}"`,
        '  [ "$COMP_CWORD" -gt 1 ] && case "$' + '{COMP_WORDS[1]}" in',
        ...cases,
        '    *) words="" ;;',
        '  esac',
        '  COMPREPLY=($(compgen -W "$words" -- "$' + '{COMP_WORDS[COMP_CWORD]}"))',
        '}',
        '[ -n "$ZSH_VERSION" ] && autoload -U +X bashcompinit && bashcompinit',
        'complete -F _parley parley',
      ];
      process.stdout.write(`${script.join('\n')}\n`);
    });
}
