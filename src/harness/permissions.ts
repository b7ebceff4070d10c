import type { PermissionMode, PermissionRule } from '../release-config.ts';
import { grantKey } from '../session/state.ts';
import type { Tool } from './tool.ts';

export type Permission = { action: 'allow' | 'ask' | 'deny'; pattern: string };

/** Whether a call may run: the last rule that matches, else the tool's own guard; then what the session was granted, then the mode. */
export function decidePermission(
  tool: Tool,
  input: unknown,
  rules: readonly PermissionRule[],
  grants: ReadonlySet<string>,
  mode: PermissionMode,
): Permission {
  const rule = rules.findLast(
    (candidate) => matchesGlob(tool.name, candidate.tool) && matchesGlob(tool.subject(input), candidate.match ?? '*'),
  );
  const pattern = rule?.match ?? '*';
  const action = rule?.action ?? (tool.guards(input) ? 'ask' : 'allow');
  if (action !== 'ask') return { action, pattern };
  if (grants.has(grantKey(tool.name, pattern)) || mode === 'autonomous') return { action: 'allow', pattern };
  return { action: mode === 'locked' ? 'deny' : 'ask', pattern };
}

/** `*` stands for any run of characters, `?` for one. Linear in the text, whatever the pattern. */
function matchesGlob(text: string, pattern: string): boolean {
  let textIndex = 0;
  let patternIndex = 0;
  let starIndex = -1;
  let restart = 0;
  while (textIndex < text.length) {
    const wanted = pattern[patternIndex];
    if (wanted === '*') {
      starIndex = patternIndex;
      restart = textIndex;
      patternIndex += 1;
    } else if (wanted === '?' || wanted === text[textIndex]) {
      textIndex += 1;
      patternIndex += 1;
    } else if (starIndex >= 0) {
      restart += 1;
      textIndex = restart;
      patternIndex = starIndex + 1;
    } else {
      return false;
    }
  }
  while (pattern[patternIndex] === '*') patternIndex += 1;
  return patternIndex === pattern.length;
}
