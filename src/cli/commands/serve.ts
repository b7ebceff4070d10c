import type { Command } from 'commander';

export function serveCommand(program: Command): void {
  program
    .command('serve')
    .description('run the server; npm start -- --help lists its settings')
    .option('--workers <n>', 'number of processes behind one port; requires DATABASE_URL')
    .action(async () => {
      // The program itself reads the same command line: --workers means the same there.
      await import('../../main.ts');
    });
}
