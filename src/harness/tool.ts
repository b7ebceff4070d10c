import { storable } from '../text/storable.ts';

/** Something the agent can do. The loop decides whether it may; the tool only acts. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Record<string, unknown>;
  /** Whether this input may change or reach something outside the conversation: then an approval is asked for by default. */
  guards(input: unknown): boolean;
  /** Whether it is safe to run a call again when its process died while it ran. */
  readonly repeatable: boolean;
  /** What permission rules match against: the command, the path, the URL. */
  subject(input: unknown): string;
  /** Why this input is not valid, if it is not: then no approval is asked for, and the model is told. */
  problem(input: unknown): string | undefined;
  /** The sentence a person is asked to approve. */
  prompt(input: unknown): string;
  /** Does not throw for what the model caused: a bad input or a failing command is an outcome with `isError`. */
  run(input: unknown, environment: ToolEnvironment): Promise<ToolOutcome>;
}

export interface ToolEnvironment {
  workspace: Workspace;
  signal: AbortSignal;
}

export interface ToolOutcome {
  output: string;
  isError: boolean;
  /** Written in the same transaction as the tool's result. */
  changes?: StorableChange[];
  /** Sub-agent that takes over. */
  handoff?: string;
}

export function succeeded(output: string): ToolOutcome {
  return { output, isError: false };
}

export function failed(output: string): ToolOutcome {
  return { output, isError: true };
}

/** The durable files of an instance, as they are when the tool starts. Paths are relative, with `/`. */
export interface Workspace {
  list(): Promise<WorkspaceFile[]>;
  read(path: string): Promise<Uint8Array | undefined>;
  /** Stores the contents where nobody sees them, if they are large. Tools call it for what they have changed. */
  storeAhead(changes: FileChange[]): Promise<StorableChange[]>;
}

export interface WorkspaceFile {
  path: string;
  size: number;
  updatedAt: Date;
}

export type FileChange = { path: string; content: Uint8Array } | { path: string; deleted: true };

/** `ahead` names the content that was stored ahead and only has to be put in its place. */
export type StorableChange = FileChange | { path: string; size: number; ahead: string };

/** Longer outputs are cut, and say so. */
export const maxToolOutputCharacters = 30_000;

/** An output as it is stored and given to the model. The loop calls this for every outcome, so that no tool has to. */
export function recordedOutput(output: string): string {
  if (output.length <= maxToolOutputCharacters) return storable(output);
  const kept = storable(output.slice(0, maxToolOutputCharacters));
  return `${kept}\n[output truncated: ${output.length - maxToolOutputCharacters} of ${output.length} characters left out]`;
}
