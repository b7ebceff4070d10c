import type { Command } from 'commander';

export function serveCommand(program: Command): void {
  program
    .command('serve')
    .description('run the server; npm start -- --help lists its settings')
    .option('--workers <n>', 'number of processes behind one port; requires DATABASE_URL')
    .action(async () => {
      // The server's main module reads the command line itself, including --workers.
      await import('../../main.ts');
    });
}
