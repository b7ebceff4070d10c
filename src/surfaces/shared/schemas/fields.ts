import { Type } from './type.ts';

/** Fields that the bodies of the management API and of the operator's routes have in common. */
export const roleField = Type.Enum(['owner', 'admin', 'member']);

/** Deliberately loose: whether mail arrives there is for the one who sends it. */
export const emailField = Type.String({ maxLength: 254, pattern: '^[^\\s@]+@[^\\s@]+$' });

/** A cap or a balance; null: none is set. */
export const amountField = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]);
