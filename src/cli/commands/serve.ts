import type { Command } from 'commander';

export function serveCommand(program: Command): void {
  program
    .command('serve')
    .description('run the server; settings come from the environment (npm start -- --help lists them)')
    .option('--workers <n>', 'processes behind one port; needs DATABASE_URL')
    .action(async () => {
      // The program itself reads the same command line: --workers means the same there.
      await import('../../main.ts');
    });
}
