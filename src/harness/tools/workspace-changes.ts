import { workspaceLimits } from '../../workspace-limits.ts';
import type { FileChange, WorkspaceFile } from '../tool.ts';
import { pathProblem } from './workspace-path.ts';

/** Why these changes cannot be stored, if they cannot. They are stored all together or not at all. */
export function changesProblem(files: readonly WorkspaceFile[], changes: readonly FileChange[]): string | undefined {
  const sizes = new Map(files.map((file) => [file.path, file.size]));
  for (const change of changes) {
    if ('deleted' in change) {
      sizes.delete(change.path);
      continue;
    }
    const problem = pathProblem(change.path.split('/'));
    if (problem !== undefined) return `${problem}: ${change.path.slice(0, 200)}`;
    if (change.content.length > workspaceLimits.fileBytes) {
      return `${change.path} would be ${change.content.length} bytes; a file may have ${workspaceLimits.fileBytes}`;
    }
    sizes.set(change.path, change.content.length);
  }
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  if (total > workspaceLimits.totalBytes) return `The workspace would be ${total} bytes; it may have ${workspaceLimits.totalBytes}`;
  if (sizes.size > workspaceLimits.files) return `The workspace would have ${sizes.size} files; it may have ${workspaceLimits.files}`;
  return undefined;
}

/** A file and a directory cannot share a path. */
export function collision(files: readonly WorkspaceFile[], path: string): string | undefined {
  for (const file of files) {
    if (path.startsWith(`${file.path}/`)) return `${file.path} is a file, not a directory`;
    if (file.path.startsWith(`${path}/`)) return `${path} is a directory`;
  }
  return undefined;
}
