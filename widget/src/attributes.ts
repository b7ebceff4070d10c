/** Lit's own converter gives null for an attribute that is taken away, which would count as a value. */
const text = { converter: { fromAttribute: (value: string | null) => value ?? undefined } };

export const attributes = {
  baseUrl: { ...text, attribute: 'base-url' },
  org: text,
  agent: text,
  token: text,
  tokenUrl: { ...text, attribute: 'token-url' },
  tokenProvider: { attribute: false },
  endUser: { ...text, attribute: 'end-user' },
  heading: text,
  placeholder: text,
  greeting: text,
  storage: text,
  showTools: { type: Boolean, attribute: 'show-tools' },
  noUploads: { type: Boolean, attribute: 'no-uploads' },
  noApprovals: { type: Boolean, attribute: 'no-approvals' },
  floating: { type: Boolean, reflect: true },
  open: { type: Boolean, reflect: true },
  labels: { attribute: false },
};
