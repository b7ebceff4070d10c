import type { TSchema } from 'typebox';
import { Type } from './type.ts';

const detail = Type.Object(
  {
    detail: Type.Union([Type.String(), Type.Object({ error: Type.String(), message: Type.String() }, { additionalProperties: true })]),
  },
  { title: 'Error' },
);

const errors: Record<string, string> = {
  401: 'Missing or invalid credential',
  402: 'Budget exhausted',
  403: 'Refused',
  404: 'Not found, or not yours',
  409: 'Conflict',
  413: 'Body too large',
  422: 'Validation failed',
  429: 'Rate limit reached',
  503: 'Temporarily unavailable',
};

/** The documented answers of a route: the good one and every error. Only the good one is serialised by its schema. */
export function answered(status: number, schema: TSchema): Record<number, TSchema> {
  const answers: Record<number, TSchema> = { [status]: schema };
  for (const [code, description] of Object.entries(errors))
    answers[Number(code)] = Type.Object(detail.properties, { title: 'Error', description });
  return answers;
}
