import { roles } from '../../server/values.ts';

/** As a choice shows them. */
export const roleChoices = roles.map((value) => ({ value, label: value }));
