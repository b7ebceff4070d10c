import type { Release } from '../../server/types.ts';

export function isUnfinished({ state }: Release): boolean {
  return state === 'pending' || state === 'materializing';
}

export function modelOf(config: Record<string, unknown>): string {
  const { model } = config;
  if (typeof model !== 'object' || model === null) return '';
  return ['provider', 'name']
    .map((field) => Reflect.get(model, field))
    .filter((part) => typeof part === 'string')
    .join('/');
}
