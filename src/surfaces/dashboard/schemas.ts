import type { Static } from 'typebox';
import { Type } from '../shared/schemas/type.ts';

export const searchQuery = Type.Object({
  agent: Type.Optional(Type.String({ maxLength: 64 })),
  state: Type.Optional(Type.Enum(['running', 'waiting', 'failed', 'idle', 'stopped'])),
  surface: Type.Optional(Type.Enum(['native', 'managed', 'chat', 'responses', 'gateway'])),
  release: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 })),
  q: Type.Optional(Type.String({ maxLength: 256 })),
  limit: Type.Optional(Type.Integer()),
  cursor: Type.Optional(Type.String()),
});
export type SearchQuery = Static<typeof searchQuery>;

export const auditQuery = Type.Object({
  action: Type.Optional(Type.String({ maxLength: 100 })),
  user_id: Type.Optional(Type.String({ maxLength: 100 })),
  from: Type.Optional(Type.String({ maxLength: 10 })),
  to: Type.Optional(Type.String({ maxLength: 10 })),
  limit: Type.Optional(Type.Integer()),
  cursor: Type.Optional(Type.String()),
});

export const playgroundBody = Type.Object(
  { agent: Type.String({ maxLength: 64 }), release: Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 }) },
  { additionalProperties: false },
);
