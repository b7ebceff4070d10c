/** As a choice shows them. */
export const roles = ['owner', 'admin', 'member'].map((value) => ({ value, label: value }));
