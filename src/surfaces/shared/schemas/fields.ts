import { Type } from './type.ts';

// Fields that routes of the management API and of the operator have in common, or whose refusals have words of their own.

export const roleField = Type.Enum(['owner', 'admin', 'member']);

/** What the sign-in library accepts as an address: a member with any other could never sign in. */
const emailPattern = "^(?:[A-Za-z0-9_'+-]+\\.)*[A-Za-z0-9_'+-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$";
export const maxEmailLength = 254;
export const emailField = Type.String({ maxLength: maxEmailLength, pattern: emailPattern });

const secretPattern = '^[\\x21-\\x7e]+$';
export const secretField = Type.String({
  minLength: 1,
  maxLength: 8_192,
  pattern: secretPattern,
  description: 'Printable ASCII, because it is sent in a header.',
});

const headPattern = '^[0-9a-f]{64}$';
export const headField = Type.String({
  pattern: headPattern,
  description: 'An earlier `head`: without an event of this hash the chain is not valid.',
});

/** What a refusal says instead of the pattern. */
export const patternWords = new Map<unknown, string>([
  [emailPattern, 'must be an email address such as ada@example.com'],
  [secretPattern, 'must be printable ASCII without spaces or line breaks'],
  [headPattern, 'must be the 64 hexadecimal digits that an earlier verification gave'],
]);

/** A cap or a balance; null if none is set. */
export const amountField = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]);

/** For routes without authentication: anybody may send a body, and parsing a megabyte of small fields takes a tenth of a second. */
export const strangersBodyLimit = 16 * 1024;
