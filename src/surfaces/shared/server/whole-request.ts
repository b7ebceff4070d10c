import type { Asked } from './refusals.ts';

/** Larger heads are left to node:http, which refuses them. */
const maxHeadBytes = 16 * 1024;
const headEnd = '\r\n\r\n';
/** Stricter than the standard: what this does not match may still be a valid request. */
const plainHead = /^POST ([!-~]+) HTTP\/1\.1\r\n(?:[\w!#$%&'*+.^`|~-]+:[\t -~]*\r\n)+\r\n$/;
const meaningful = /^(authorization|content-length|host|connection|expect|origin|transfer-encoding|upgrade):[\t ]*(.*?)[\t ]*$/gim;
const known = new Set(['authorization', 'content-length', 'host']);

/**
 * Reads bytes that are exactly one POST: its head and its body, of the length that its head says. Undefined for everything that is not
 * as plain as that, even if it is valid: parts of a request, several of them, and whatever asks for more than an answer.
 */
export function readWholeRequest(bytes: Buffer, headBytes = headBytesOf(bytes)): Asked | undefined {
  if (headBytes > maxHeadBytes) return undefined;
  const head = bytes.toString('latin1', 0, headBytes);
  const [, url] = plainHead.exec(head) ?? [];
  if (url === undefined) return undefined;
  const headers = new Map<string, string>();
  for (const [, field = '', value = ''] of head.matchAll(meaningful)) {
    const name = field.toLowerCase();
    if (name === 'connection' && value.toLowerCase() === 'keep-alive') continue;
    if (!known.has(name) || headers.has(name)) return undefined;
    headers.set(name, value);
  }
  if (headers.get('content-length') !== String(bytes.length - headBytes)) return undefined;
  return { method: 'POST', url, headers: { host: headers.get('host'), authorization: headers.get('authorization') } };
}

/** Does the same for the bytes of one connection. Most heads there are the same as the one before: those are only compared. */
export function createRequestReader(): (bytes: Buffer) => Asked | undefined {
  let last: { head: Buffer; length: number; request: Asked } | undefined;
  return (bytes) => {
    if (bytes.length === last?.length && last.head.compare(bytes, 0, last.head.length) === 0) return last.request;
    const headBytes = headBytesOf(bytes);
    const request = readWholeRequest(bytes, headBytes);
    last = request && { head: Buffer.from(bytes.subarray(0, headBytes)), length: bytes.length, request };
    return request;
  };
}

function headBytesOf(bytes: Buffer): number {
  const end = bytes.indexOf(headEnd);
  return end === -1 ? Number.POSITIVE_INFINITY : end + headEnd.length;
}
