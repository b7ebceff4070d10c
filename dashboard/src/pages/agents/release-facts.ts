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

/** A release's config as people edit and compare it. */
export function configText(config: Record<string, unknown>): string {
  return JSON.stringify(withoutRepetition(config), null, 2);
}

/**
 * The server stores the instructions of a release a second time, in its main sub-agent, where they take precedence: who
 * edited only the first copy would change nothing. So the second is left out, and the list of sub-agents as well if only
 * a name remains in it.
 */
export function withoutRepetition(config: Record<string, unknown>): Record<string, unknown> {
  const { agents, main, instructions } = config;
  if (!Array.isArray(agents)) return config;
  const shortened = agents.map(({ ...agent }: Record<string, unknown>) => {
    if (agent.name === main && agent.instructions === instructions) delete agent.instructions;
    return agent;
  });
  const isDefault = shortened.length === 1 && Object.keys(shortened[0] ?? {}).length === 1;
  return Object.fromEntries(
    Object.entries(config).flatMap(([name, value]) => (name !== 'agents' ? [[name, value]] : isDefault ? [] : [[name, shortened]])),
  );
}
