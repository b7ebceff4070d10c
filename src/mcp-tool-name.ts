import { hash } from 'node:crypto';
import type { PinnedTool } from './release-config.ts';

/** `<server>__<tool>`, in the characters and the length that every model provider accepts. */
export function mcpToolName({ server, name }: Pick<PinnedTool, 'server' | 'name'>): string {
  const full = `${server}__${name}`;
  if (/^[A-Za-z0-9_-]{1,64}$/.test(full)) return full;
  const suffix = hash('sha256', full, 'hex').slice(0, 8);
  return `${full.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 55)}_${suffix}`;
}
