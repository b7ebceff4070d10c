/** The form of keys, at most 256 characters. Checked before a key is accepted as a setting or used in a query. */
export const keyShapes = {
  api: /^svc_live_[A-Za-z0-9_-]{16,247}$/,
  operator: /^svc_operator_[A-Za-z0-9_-]{16,243}$/,
};
