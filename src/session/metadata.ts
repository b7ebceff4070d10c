import { ServiceError } from '../errors.ts';

const maxKeys = 50;
const maxBytes = 16 * 1024;

/** Throws when the metadata, the `field` of a body, breaks a rule; nothing is written then. */
export function assertMetadata(metadata: Record<string, unknown>, kind: 'invalid' | 'bad-request', field = 'metadata'): void {
  if (Object.keys(metadata).length > maxKeys) throw new ServiceError(kind, `${field}: at most ${maxKeys} keys`);
  const text = JSON.stringify(metadata, (_key, value: unknown) => {
    // 1e400 is valid JSON but becomes Infinity here, which would be stored as null.
    if (typeof value === 'number' && !Number.isFinite(value)) throw new ServiceError(kind, `${field}: contains a number that is too large`);
    return value;
  });
  if (Buffer.byteLength(text) > maxBytes) throw new ServiceError(kind, `${field}: at most 16 KiB in all`);
  for (const key of ['end_user_id', 'user_id', 'agent_instance_id']) {
    const value = metadata[key];
    if (value === undefined || value === null) continue;
    // Counted in code points, as schemas do: any end user that a token can name can then be named here.
    if (typeof value !== 'string' || value === '' || Array.from(value).length > 256)
      throw new ServiceError(kind, `${field}.${key}: must be a string of 1 to 256 characters`);
  }
}

/** `user_id` is the older name of `end_user_id`. */
export function endUserOf(metadata: Record<string, unknown>): string | undefined {
  const named = metadata.end_user_id ?? metadata.user_id;
  return typeof named === 'string' ? named : undefined;
}

export function instanceIdOf(metadata: Record<string, unknown>): string | undefined {
  return typeof metadata.agent_instance_id === 'string' ? metadata.agent_instance_id : undefined;
}
