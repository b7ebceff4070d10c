import { parseArgs } from 'node:util';
import { ConfigError } from '../config.ts';

/** `parley serve` and its workers run with the arguments of `parley`, so its command and its options are accepted too. */
const options = { help: { type: 'boolean', short: 'h' }, workers: { type: 'string' }, json: { type: 'boolean' } } as const;
const command = 'serve';

/** The arguments after `npm start --`. Unknown ones are refused: a mistyped option would start something other than was meant. */
export function readArguments(args: string[]): { help: boolean; workers: number | undefined } {
  const { values, tokens } = parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true });
  for (const token of tokens) {
    if (token.kind === 'option' && !Object.hasOwn(options, token.name)) throw unknown(token.rawName);
    if (token.kind === 'positional' && token.value !== command) throw unknown(token.value);
  }
  return { help: values.help !== undefined, workers: values.workers === undefined ? undefined : workerCount(values.workers) };
}

function workerCount(value: string | boolean): number {
  const count = Number(value);
  if (typeof value === 'boolean' || !Number.isInteger(count) || count < 1 || count > 256)
    throw new ConfigError('--workers: must be a whole number from 1 to 256');
  return count;
}

function unknown(argument: string): ConfigError {
  return new ConfigError(`${argument}: is not an option; npm start -- --help lists the options and settings`);
}
