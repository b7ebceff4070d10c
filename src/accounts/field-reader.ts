import { ServiceError } from '../errors.ts';
import { isRecord } from '../text/json.ts';

/** Reads an untrusted JSON object field by field; every refusal names the field by its path. */
export class FieldReader {
  private readonly fields: ReadonlyMap<string, unknown>;
  private readonly base: string;

  /** Refuses anything but an object whose keys are all among `known`. */
  constructor(value: unknown, path: string, known: readonly string[]) {
    this.base = path;
    if (!isRecord(value)) throw refuse(path, 'must be an object');
    this.fields = new Map(Object.entries(value));
    for (const key of this.fields.keys()) {
      if (!known.includes(key)) throw refuse(this.path(key), 'is not a known field');
    }
  }

  path(key: string): string {
    return this.base === '' ? key : `${this.base}.${key}`;
  }

  /** The unchecked value of a field; undefined when it is absent or null. */
  raw(key: string): unknown {
    return this.fields.get(key) ?? undefined;
  }

  refuse(key: string, reason: string): ServiceError {
    return refuse(this.path(key), reason);
  }

  /** `fallback` is the value of an absent field; without a fallback the field is required. */
  string(
    key: string,
    fallback: string | undefined,
    { maxLength, format }: { maxLength: number; format?: { pattern: RegExp; words: string } },
  ): string {
    const value = this.raw(key) ?? fallback;
    if (value === undefined) throw this.refuse(key, 'is required');
    if (typeof value !== 'string') throw this.refuse(key, 'must be a string');
    if (value.length > maxLength) throw this.refuse(key, `must have at most ${maxLength} characters`);
    if (format !== undefined && !format.pattern.test(value)) throw this.refuse(key, `must be ${format.words}`);
    return value;
  }

  oneOf<Choice extends string>(key: string, choices: readonly Choice[], fallback: Choice | undefined): Choice {
    const value = this.raw(key) ?? fallback;
    const choice = choices.find((candidate) => candidate === value);
    if (choice === undefined) throw this.refuse(key, `must be one of ${choices.join(', ')}`);
    return choice;
  }

  integer(key: string, fallback: number, least: number, most: number): number {
    const value = this.raw(key) ?? fallback;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
      throw this.refuse(key, `must be a whole number from ${least} to ${most}`);
    return value;
  }

  list<Item>(key: string, most: number, read: (item: unknown, path: string) => Item): Item[] {
    const value = this.raw(key) ?? [];
    if (!Array.isArray(value)) throw this.refuse(key, 'must be an array');
    if (value.length > most) throw this.refuse(key, `must have at most ${most} entries`);
    return value.map((item, index) => read(item, `${this.path(key)}[${index}]`));
  }
}

function refuse(path: string, reason: string): ServiceError {
  return new ServiceError('invalid', `${path === '' ? 'body' : path}: ${reason}`);
}
