import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { validDay } from '../clock.ts';
import { errorMessage } from '../errors.ts';
import { isRecord } from '../text/json.ts';

// Checks of what was given on the command line, before anything is sent. Each throws an error that says what was expected. An option that
// was not given is undefined, which is not sent.

export function wholeNumberOrNone(option: string, given: string | undefined): number | null | undefined {
  return given === 'none' ? null : wholeNumber(option, given, 'a whole number or none');
}

export function wholeNumber(option: string, given: string | undefined, expected = 'a whole number'): number | undefined {
  if (given === undefined) return undefined;
  const number = given.trim() === '' ? Number.NaN : Number(given);
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`${option}: must be ${expected}, not ${given}`);
  return number;
}

export function day(option: string, given: string): string {
  if (validDay(given) === undefined) throw new Error(`${option}: must be a day such as 2026-01-31, not ${given}`);
  return given;
}

export function url(given: string): URL {
  if (!/^https?:\/\//i.test(given) || !URL.canParse(given))
    throw new Error(`${given} is not a URL; it must start with https:// or http://`);
  return new URL(given);
}

export function requireSome<Changes extends object>(changes: Changes, options: string): Changes {
  if (Object.values(changes).every((value) => value === undefined)) throw new Error(`nothing to change: give ${options}`);
  return changes;
}

/** `-` is standard input. */
export async function jsonObject(file: string): Promise<object> {
  const name = file === '-' ? 'standard input' : file;
  const json = await (file === '-' ? text(process.stdin) : readFile(file, 'utf8')).catch((error: unknown) => {
    throw new Error(`${name} cannot be read: ${errorMessage(error)}`, { cause: error });
  });
  const value = parse(name, json);
  if (!isRecord(value)) throw new Error(`${name} must hold a JSON object`);
  return value;
}

/** Secrets are read from standard input, because arguments are visible in the list of processes and in the shell's history. */
export async function secretFromInput(command: string): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('Paste the key, then press Ctrl-D:\n');
  const secret = (await text(process.stdin)).trim();
  if (secret === '') throw new Error(`no key on standard input; try: ${command} < file-with-the-key`);
  return secret;
}

function parse(file: string, json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new Error(`${file} is not JSON: ${errorMessage(error)}`, { cause: error });
  }
}
