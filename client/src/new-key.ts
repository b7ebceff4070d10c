/** A key that no other request has. Not `crypto.randomUUID`: a page that came over plain HTTP has none. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
