import type { TSchema } from 'typebox';
import { Type } from './type.ts';

const detail = Type.Union([Type.String(), Type.Object({ error: Type.String(), message: Type.String() }, { additionalProperties: true })]);
const adapterError = Type.Object({
  message: Type.String(),
  type: Type.String(),
  code: Type.String(),
  param: Type.Union([Type.String(), Type.Null()]),
});

const errors: Record<string, string> = {
  401: 'Missing or invalid credential',
  402: 'Budget exhausted',
  403: 'Refused',
  404: 'Not found, or not yours',
  409: 'Conflict',
  413: 'Body too large',
  415: 'Body that is not JSON',
  422: 'Validation failed',
  429: 'Rate limit reached',
  502: 'A model provider or MCP server failed',
  503: 'Temporarily unavailable',
};

/** The documented responses of a route: the successful one and every error. Only the successful one is serialized by its schema. */
export function answered(status: number, schema: TSchema): Record<number, TSchema> {
  return { [status]: schema, ...everyError('Error', { detail }) };
}

/** The same for the two adapters, whose errors have, beside `detail`, the object that their client libraries read. */
export function answeredByAdapter(status: number, schema: TSchema): Record<number, TSchema> {
  return { [status]: schema, ...everyError('AdapterError', { detail, error: adapterError }) };
}

function everyError(title: string, properties: Record<string, TSchema>): Record<number, TSchema> {
  return Object.fromEntries(
    Object.entries(errors).map(([code, description]) => [Number(code), Type.Object(properties, { title, description })]),
  );
}
