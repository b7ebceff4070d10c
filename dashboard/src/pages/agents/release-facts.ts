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
 * A config as it is compared: a line break in a string, as instructions have them, is one here too. Otherwise a word that was
 * changed in them would show as all of them removed and all of them added. Commas behind entries are left out, and the quote behind such a
 * string has a line of its own, so that adding one behind another is no change of that.
 */
export function comparedText(configText: string): string {
  return configText
    .split('\n')
    .map((line) => {
      const indent = /^ */.exec(line)?.[0] ?? '';
      const entry = line.replace(/,$/, '');
      const lines = entry.replace(/\\./g, (escaped) => (escaped === '\\n' ? `\n${indent}  ` : escaped));
      return lines === entry ? entry : lines.replace(/"$/, `\n${indent}"`);
    })
    .join('\n');
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

/** The instructions of a release for a field of their own; undefined if its main sub-agent has others, which take precedence. */
export function instructionsOf({ instructions = '', agents, main }: Record<string, unknown>): string | undefined {
  const own = Array.isArray(agents) && agents.some((agent) => agent?.name === main && agent?.instructions !== undefined);
  return own || typeof instructions !== 'string' ? undefined : instructions;
}
