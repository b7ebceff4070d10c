import cluster from 'node:cluster';
import { createApp } from './app.ts';
import { ConfigError, describeSettings, loadConfig } from './config.ts';
import { createContext } from './context.ts';
import { welcome } from './welcome.ts';
import { runWorkers, workerCount } from './workers.ts';

if (process.argv.includes('--help') || process.argv.includes('-h')) {
  printHelp();
} else {
  await begin().catch((error: unknown) => {
    process.stderr.write(`parley: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = error instanceof ConfigError ? 2 : 1;
  });
}

async function begin(): Promise<void> {
  const workers = cluster.isPrimary ? workerCount(process.argv) : undefined;
  if (workers === undefined) await serve();
  else runWorkers(workers);
}

async function serve(): Promise<void> {
  const config = loadConfig();
  const context = await createContext(config);
  const server = await createApp(context);
  try {
    await server.listen({ host: config.HOST, port: config.PORT });
  } catch (error) {
    await context.close();
    throw error;
  }
  process.stdout.write(welcome(context, portOf(server.server.address()) ?? config.PORT));

  let stopping = false;
  const stop = async (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    context.logger.info({ signal }, 'stopping');
    await context.drain(signal === 'SIGINT' ? 0 : config.PARLEY_DRAIN_SECONDS);
    await server.close();
    await context.close();
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

function portOf(address: string | { port: number } | null): number | undefined {
  return typeof address === 'object' ? address?.port : undefined;
}

function printHelp(): void {
  const settings = describeSettings();
  const width = Math.max(...settings.map(({ name }) => name.length));
  const lines = settings.map(
    ({ name, fallback, description }) => `  ${name.padEnd(width)}  ${description}${fallback === '' ? '' : ` (default: ${fallback})`}`,
  );
  process.stdout.write(`Usage: npm start [-- --workers N]\n\nSettings, from the environment or a .env file:\n${lines.join('\n')}\n`);
}
