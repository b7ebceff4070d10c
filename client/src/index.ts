export { ParleyClient } from './client.ts';
export {
  ApiError,
  AuthenticationError,
  BudgetError,
  ConflictError,
  ConnectionError,
  type ErrorDetail,
  NotFoundError,
  ParleyError,
  PermissionError,
  RateLimitError,
  SignatureError,
  UnavailableError,
  ValidationError,
} from './errors.ts';
export type { EventOptions } from './follow-events.ts';
export type { CreateManagedSession, EndUserQuery, Managed } from './managed.ts';
export type * from './managed-types.ts';
export type { CreateSession, Inputs, ListSessions, Messages, SendMessage, Sessions } from './native.ts';
export type { Routes, Schemas } from './openapi.ts';
export type { ClientOptions, Credential, RequestOptions } from './options.ts';
export type { RouteCall } from './route-request.ts';
export { TurnText } from './turn-text.ts';
export type * from './types.ts';
export { verifyWebhook, type WebhookEvent } from './webhooks.ts';
