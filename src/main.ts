import cluster from 'node:cluster';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { ConfigError, describeSettings, loadConfig } from './config.ts';
import { errorMessage } from './errors.ts';
import { readArguments } from './start/arguments.ts';
import { runWorkers } from './start/workers.ts';

// Before anything else is loaded: with the compiled code of the last start, this one takes about half the time.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/parley/compiled'));
// Otherwise loading the code grows V8's young generation to 32 MiB, which an idle process keeps. It may grow again once the server runs.
setFlagsFromString('--semi-space-growth-factor=1');

try {
  const { help, workers } = readArguments(process.argv.slice(2));
  if (help) {
    printHelp();
  } else {
    const config = loadConfig();
    if (workers === undefined || cluster.isWorker) {
      const { serve } = await import('./start/serve.ts');
      await serve(config);
      setFlagsFromString('--semi-space-growth-factor=2');
    } else {
      await runWorkers(workers, config);
    }
  }
} catch (error) {
  process.stderr.write(`parley: ${errorMessage(error)}\n`);
  process.exitCode = error instanceof ConfigError ? 2 : 1;
  // The open channel to the primary process would keep a worker running.
  if (cluster.isWorker) process.exit();
}

function printHelp(): void {
  const settings = describeSettings();
  const width = Math.max(...settings.map(({ name }) => name.length));
  const lines = settings.map(
    ({ name, fallback, description }) => `  ${name.padEnd(width)}  ${description}${fallback === '' ? '' : ` (default: ${fallback})`}`,
  );
  process.stdout.write(`Usage: npm start [-- --workers N]\n\nSettings, from the environment or a .env file:\n${lines.join('\n')}\n`);
}
