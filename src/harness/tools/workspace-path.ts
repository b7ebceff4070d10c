/** The path of the workspace in the shell. The `files` tool accepts such paths too, since models use both. */
export const workspaceRoot = '/workspace';

/** The path as it is stored (relative, `/`, no `.` or `..`), or the reason why there is none. */
export function parseWorkspacePath(given: string): { path: string } | { problem: string } {
  const relative = given === workspaceRoot || given.startsWith(`${workspaceRoot}/`) ? given.slice(workspaceRoot.length + 1) : given;
  if (relative.startsWith('/')) return { problem: `The path must be relative to the workspace: ${given}` };
  const segments = relative.split('/').filter((segment) => segment !== '' && segment !== '.');
  const problem = pathProblem(segments);
  return problem === undefined ? { path: segments.join('/') } : { problem };
}

/** Why a path cannot be stored, if it cannot. */
export function pathProblem(segments: readonly string[]): string | undefined {
  const path = segments.join('/');
  if (segments.includes('..')) return 'The path must not contain ".."';
  if (/[\p{Cc}\\]/u.test(path)) return 'The path must not contain control characters or backslashes';
  if (!path.isWellFormed()) return 'The path is not valid Unicode';
  if (segments.some((segment) => Buffer.byteLength(segment) > 255)) return 'A name in the path is longer than 255 bytes';
  if (Buffer.byteLength(path) > 1_024) return 'The path is longer than 1,024 bytes';
  return undefined;
}
