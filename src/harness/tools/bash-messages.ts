import type { FileChange, WorkspaceFile } from '../tool.ts';

/** The messages between the server and a shell process, which runs one command at a time. */
export type ToShell =
  | { type: 'run'; command: string; files: WorkspaceFile[]; timeoutMs: number }
  | { type: 'content'; path: string; content: Uint8Array | undefined };

export type FromShell = { type: 'read'; path: string } | ({ type: 'done' } & ShellResult);

export interface ShellResult {
  stdout: string;
  /** How long it was before it was cut to `maxStreamCharacters`. */
  stdoutCharacters: number;
  stderr: string;
  exitCode: number;
  timedOut: boolean;
  changes: FileChange[];
  /** Why a workspace cannot keep the changes, which are then left out. */
  problem?: string | undefined;
  /** Which of the command's changes a workspace cannot keep. */
  notes: string[];
}

/** More than the limit of a tool's output, which the server cuts, and says so. */
export const maxStreamCharacters = 200_000;
