import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { gatewayUrl } from './gateway/event.ts';
import { isRecord, parseJson } from './text/json.ts';

/** Returns the value of a setting, or throws an error that says what it should be. */
export type Parse<Value> = (text: string) => Value;

export function optional<Value>(parse: Parse<Value>): Parse<Value | undefined> {
  return (value) => (value === '' ? undefined : parse(value));
}

export function text(value: string): string {
  return value;
}

/** A key that is sent in a header. With a line break at its end, as files have, every request would fail. */
export function credential(value: string): string {
  if (!/^[\x21-\x7e]+$/.test(value)) throw new Error('a key must be printable ASCII without spaces or line breaks');
  return value;
}

/** As in a Host header, in lower case. */
export function host(value: string): string {
  const name = value.toLowerCase();
  if (!/^([\w.-]+|\[[\da-f:.]+\])(:\d+)?$/.test(name)) throw new Error(`must be a host name such as api.example.com, not "${value}"`);
  return name;
}

/** As browsers send them in an Origin header, including `null`: anything else would never match. */
export function origins(value: string): string[] {
  const entries = list(value);
  for (const entry of entries) {
    if (!/^(\*|null|[a-z][a-z\d+.-]*:\/\/[^\s/?#@A-Z]+)$/.test(entry))
      throw new Error(`must be * or origins such as https://app.example.com, without a path, not "${entry}"`);
  }
  return entries;
}

export function path(value: string): string {
  return resolve(value);
}

export function integer(least: number, most: number): Parse<number> {
  return (value) => {
    const number = /^\s*\d+\s*$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) throw new Error(`must be a whole number from ${least} to ${most}, not "${value}"`);
    return number;
  };
}

export function flag(value: string): boolean {
  if (value === '1' || value === 'true') return true;
  if (value === '0' || value === 'false') return false;
  throw new Error(`must be 1 or 0, not "${value}"`);
}

export function oneOf<Choice extends string>(choices: readonly Choice[]): Parse<Choice> {
  return (value) => {
    const choice = choices.find((candidate) => candidate === value);
    if (choice === undefined) throw new Error(`must be one of ${choices.join(', ')}, not "${value}"`);
    return choice;
  };
}

export function matching(pattern: RegExp, words: string): Parse<string> {
  return (value) => {
    if (!pattern.test(value)) throw new Error(`must be ${words}`);
    return value;
  };
}

export function urlWith(protocols: string[]): Parse<string> {
  return (value) => {
    if (!URL.canParse(value) && protocols.some((name) => value.startsWith(`${name}//`)))
      throw new Error('is not a valid URL; encode special characters of its password (/ is %2F, # is %23)');
    if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol))
      throw new Error(`must be a URL that starts with ${protocols.map((name) => `${name}//`).join(' or ')}`);
    return value;
  };
}

/** A URL to which paths are appended. */
export function rootUrl(value: string): string {
  const url = urlWith(['http:', 'https:'])(value);
  if (/[?#]/.test(url)) throw new Error('must be a URL without ? and #');
  return url;
}

export function redisUrl(value: string): string {
  const url = urlWith(['redis:', 'rediss:'])(value);
  if (!/^\/?\d*$/.test(new URL(url).pathname))
    throw new Error('what follows the host must be the number of a database, as in redis://host:6379/0');
  if (/%(?![\da-f]{2})/i.test(new URL(url).password)) throw new Error('encode special characters of its password (% is %25)');
  return url;
}

export function networks(value: string): string[] {
  const entries = list(value);
  for (const entry of entries) {
    const [address = '', prefix = '1', ...rest] = entry.split('/');
    const most = isIP(address) === 4 ? 32 : 128;
    if (isIP(address) === 0 || !/^[1-9]\d{0,2}$/.test(prefix) || Number(prefix) > most || rest.length > 0)
      throw new Error(`must be addresses or networks such as 10.0.0.0/8, not "${entry}"`);
  }
  return entries;
}

/** The entries of a comma-separated list; empty ones are left out. */
export function list(value: string): string[] {
  return value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

function stringMap(value: string): Record<string, string> {
  const parsed = parseJson(value);
  if (!isRecord(parsed)) throw new Error('must be a JSON object');
  const entries = Object.entries(parsed).map(([key, entry]) => {
    if (typeof entry !== 'string') throw new Error(`"${key}" must be a string`);
    return [key, entry] as const;
  });
  return Object.fromEntries(entries);
}

/** Keys by URL. The URLs are normalized as those of stored gateways are, by which a key is looked up. */
export function gatewayPeers(value: string): Record<string, string> {
  const entries = Object.entries(stringMap(value)).map(([url, key]) => {
    if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) throw new Error(`"${url}" must be a URL that starts with http:// or https://`);
    return [gatewayUrl(url), credential(key)] as const;
  });
  return Object.fromEntries(entries);
}

export function parseSecretKey(value: string): Buffer {
  const bytes = /^[0-9a-fA-F]{64}$/.test(value) ? Buffer.from(value, 'hex') : Buffer.from(value, 'base64');
  if (bytes.length !== 32) throw new Error('must be 32 bytes as Base64 or hex, as `openssl rand -base64 32` makes them');
  return bytes;
}
