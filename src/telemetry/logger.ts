import cluster from 'node:cluster';
import { format } from 'node:util';
import { LRUCache } from 'lru-cache';
import pino from 'pino';
import { errorMessage } from '../errors.ts';
import { writeLine } from './log-output.ts';

export type Logger = pino.Logger;

/** JSON lines on standard output. Fields that could hold a secret are redacted. */
export function createLogger(level: string, destination: pino.DestinationStream = { write: writeLine }, quietMs = 60_000): Logger {
  const isNews = createRepeatFilter(quietMs);
  const options: pino.LoggerOptions = {
    level,
    // The processes of `--workers` share one output: each line names its process.
    base: cluster.worker === undefined ? null : { worker: cluster.worker.id },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: ['req.headers.authorization', 'headers.authorization', 'authorization', '*.api_key', '*.secret', '*.token'],
      censor: '[redacted]',
    },
    hooks: {
      logMethod(args, method, levelNumber) {
        if (levelNumber !== pino.levels.values.warn || isNews(args)) method.apply(this, args);
      },
    },
  };
  return pino(options, destination);
}

/** Logs what packages print on the console. Some print what a remote server sent, whose line breaks would look like lines of the log. */
export function logConsole(logger: Logger): void {
  for (const [method, level] of [
    ['debug', 'debug'],
    ['log', 'info'],
    ['info', 'info'],
    ['warn', 'warn'],
    ['error', 'error'],
  ] as const) {
    console[method] = (...words: unknown[]) => logger[level]({ said: format(...words).slice(0, 1_000) }, 'console');
  }
}

/**
 * False for a warning that was written less than `quietMs` ago: while the database is down, several loops and every request log the
 * same one each second. The next one that is written says how often it was `repeated`.
 */
function createRepeatFilter(quietMs: number): (line: unknown[]) => boolean {
  const recent = new LRUCache<string, { at: number; repeated: number }>({ max: 100 });
  return ([fields, message]) => {
    if (typeof fields !== 'object' || fields === null || !('err' in fields)) return true;
    const kind = `${message}: ${errorMessage(fields.err)}`;
    const last = recent.get(kind);
    if (last !== undefined && performance.now() - last.at < quietMs) {
      last.repeated += 1;
      return false;
    }
    if (last !== undefined && last.repeated > 0) Object.assign(fields, { repeated: last.repeated });
    recent.set(kind, { at: performance.now(), repeated: 0 });
    return true;
  };
}
