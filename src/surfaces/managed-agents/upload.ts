import { ServiceError } from '../../errors.ts';
import { workspaceLimits } from '../../workspace-limits.ts';

/** The bytes that a body carries. Refuses what is no Base64 before it is decoded, and what is too much before it is held. */
export function decodeUpload(base64: string): Buffer {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  if (base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]*$/.test(padding === 0 ? base64 : base64.slice(0, -padding)))
    throw new ServiceError('bad-request', 'content_base64: is not valid Base64');
  if ((base64.length / 4) * 3 - padding > workspaceLimits.fileBytes)
    throw new ServiceError('too-large', `A file may have ${workspaceLimits.fileBytes} bytes.`);
  return Buffer.from(base64, 'base64');
}
