import type { PermissionMode, PermissionRule } from '../release-config.ts';
import { grantKey } from '../session/state.ts';
import type { Tool } from './tool.ts';

export type Permission = { action: 'allow' | 'ask' | 'deny'; pattern: string };

/** Steps of comparing one call with all rules: about 0.1 s, in which nothing else runs. A hundred rules `*word*` take 200,000 characters. */
const mostSteps = 25_000_000;

/**
 * Whether a call may run: the last rule that matches, else the tool's own guard; then what the session was granted, then the mode.
 * What cannot be compared with all rules may not.
 */
export function decidePermission(
  tool: Tool,
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
  if (effort.steps > mostSteps) return { action: 'deny', pattern: '*' };
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
  let left = mostSteps - effort.steps;
  while (textIndex < text.length) {
    left -= 1;
    // Ends the comparing with the other rules too.
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
  effort.steps = mostSteps - left;
  while (pattern.charCodeAt(patternIndex) === star) patternIndex += 1;
  return left < 0 || patternIndex === pattern.length;
}

const star = '*'.charCodeAt(0);
const questionMark = '?'.charCodeAt(0);
