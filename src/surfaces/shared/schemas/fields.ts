import { Type } from './type.ts';

/** Fields that the bodies of the management API and of the operator's routes have in common. */
export const roleField = Type.Enum(['owner', 'admin', 'member']);

/** Deliberately loose: only sending a mail there shows whether an address is one. */
const emailPattern = '^[^\\s@]+@[^\\s@]+$';
export const emailField = Type.String({ maxLength: 254, pattern: emailPattern });

const secretPattern = '^[\\x21-\\x7e]+$';
export const secretField = Type.String({
  minLength: 1,
  maxLength: 8_192,
  pattern: secretPattern,
  description: 'Printable ASCII, because it is sent in a header.',
});

/** What a refusal says of a text that does not fit: the pattern itself says nothing to a person. */
export const patternWords = new Map<unknown, string>([
  [emailPattern, 'must be an email address'],
  [secretPattern, 'must be printable ASCII without spaces or line breaks'],
]);

/** A cap or a balance; null: none is set. */
export const amountField = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]);
