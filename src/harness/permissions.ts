import type { PermissionMode, PermissionRule } from '../release-config.ts';
import { grantKey } from '../session/state.ts';
import type { Tool } from './tool.ts';

export type Permission = { action: 'allow' | 'ask' | 'deny'; pattern: string };

/** Steps of matching one call against all rules: about 0.1 s that block the process. A hundred rules `*word*` take 200,000 characters. */
const maxSteps = 25_000_000;

/**
 * Whether a call may run. The last rule that matches decides, or else the tool's own guard; if they ask, a grant of the session or the
 * mode may answer. A call that takes too many steps to match is denied.
 */
export function decidePermission(
  tool: Pick<Tool, 'name' | 'subject' | 'guards'>,
  input: unknown,
  rules: readonly PermissionRule[],
  grants: ReadonlySet<string>,
  mode: PermissionMode,
): Permission {
  const subject = tool.subject(input);
  const effort = { steps: 0 };
  const rule = rules.findLast(
    (candidate) => matchesGlob(tool.name, candidate.tool, effort) && matchesGlob(subject, candidate.match ?? '*', effort),
  );
  if (effort.steps > maxSteps) return { action: 'deny', pattern: '*' };
  const pattern = rule?.match ?? '*';
  const action = rule?.action ?? (tool.guards(input) ? 'ask' : 'allow');
  if (action !== 'ask') return { action, pattern };
  if (grants.has(grantKey(tool.name, pattern)) || mode === 'autonomous') return { action: 'allow', pattern };
  return { action: mode === 'locked' ? 'deny' : 'ask', pattern };
}

/** `*` stands for any run of characters, `?` for one. Takes at most as many steps as the lengths of both multiplied. */
function matchesGlob(text: string, pattern: string, effort: { steps: number }): boolean {
  let textIndex = 0;
  let patternIndex = 0;
  let starIndex = -1;
  let restart = 0;
  let left = maxSteps - effort.steps;
  while (textIndex < text.length) {
    left -= 1;
    // Whatever is returned then, the caller denies.
    if (left < 0) break;
    const wanted = pattern.charCodeAt(patternIndex);
    if (wanted === star) {
      starIndex = patternIndex;
      restart = textIndex;
      patternIndex += 1;
    } else if (wanted === questionMark || wanted === text.charCodeAt(textIndex)) {
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
  effort.steps = maxSteps - left;
  while (pattern.charCodeAt(patternIndex) === star) patternIndex += 1;
  return patternIndex === pattern.length;
}

const star = '*'.charCodeAt(0);
const questionMark = '?'.charCodeAt(0);
