import { hash, randomFillSync } from 'node:crypto';

/** For a session, a message, an approval request, a turn, a tool call, a gateway event, a process, an HTTP request. */
type IdPrefix = 'ses_' | 'msg_' | 'req_' | 'turn_' | 'call_' | 'evt_' | 'proc_' | 'rid_';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
let lastMillisecond = 0;
let countInMillisecond = 0;
/** Random bytes for 256 ids at once: asking the system for them costs more than the rest of an id. */
const random = Buffer.alloc(12 * 256);
let randomUsed = random.length;

/** An opaque id that sorts by the time it was made: 48 bits of time, a counter within the millisecond, 60 random bits. */
export function newId(prefix: IdPrefix): string {
  const now = Date.now();
  if (now <= lastMillisecond) countInMillisecond += 1;
  else {
    lastMillisecond = now;
    countInMillisecond = 0;
  }
  if (randomUsed === random.length) {
    randomFillSync(random);
    randomUsed = 0;
  }
  let text = prefix + encode(lastMillisecond, 10) + encode(countInMillisecond, 4);
  for (const end = randomUsed + 12; randomUsed < end; randomUsed += 1) text += alphabet[(random[randomUsed] ?? 0) & 31];
  return text;
}

/** An id that is the same whenever it is made from the same text and time, for work that may be repeated after a crash. */
export function idOf(prefix: IdPrefix, at: Date, text: string): string {
  let id = prefix + encode(at.getTime(), 10);
  for (const byte of hash('sha256', text, 'buffer').subarray(0, 16)) id += alphabet[byte & 31];
  return id;
}

/** When an id was made, in milliseconds. */
export function timeOfId(id: string): number {
  let time = 0;
  for (const letter of id.slice(-26, -16)) time = time * 32 + Math.max(0, alphabet.indexOf(letter));
  return time;
}

function encode(value: number, length: number): string {
  let rest = value;
  let text = '';
  for (let index = 0; index < length; index += 1) {
    text = alphabet[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** A `session_id` that a client may choose. */
export function isSessionId(value: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(value);
}
