import type { FileChange, WorkspaceFile } from '../tool.ts';

/** What the serving process and a shell process say to each other. One command runs in a shell process at a time. */
export type ToShell =
  | { type: 'run'; command: string; files: WorkspaceFile[]; timeoutMs: number }
  | { type: 'content'; path: string; content: Uint8Array | undefined };

export type FromShell = { type: 'ready' } | { type: 'read'; path: string } | ({ type: 'done' } & ShellResult);

export interface ShellResult {
  stdout: string;
  stderr: string;
  exitCode: number;
  timedOut: boolean;
  changes: FileChange[];
  /** What the command left behind that a workspace cannot keep. */
  notes: string[];
}

/** More than a tool may say, so that the cut is made and announced in one place. */
export const maxStreamCharacters = 200_000;
