/** What keys look like, checked before one is taken as a setting or reaches a query: no longer than 256 characters. */
export const keyShapes = {
  api: /^svc_live_[A-Za-z0-9_-]{16,247}$/,
  operator: /^svc_operator_[A-Za-z0-9_-]{16,243}$/,
};
