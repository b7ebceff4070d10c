import pino from 'pino';

export type Logger = pino.Logger;

/** JSON lines on standard output; whatever could hold a secret is left out before it is written. */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: ['req.headers.authorization', 'headers.authorization', 'authorization', '*.api_key', '*.secret', '*.token'],
      censor: '[redacted]',
    },
  });
}
