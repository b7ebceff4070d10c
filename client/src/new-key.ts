/** A unique idempotency key. Not `crypto.randomUUID`, which browsers lack on pages that were loaded over plain HTTP. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
