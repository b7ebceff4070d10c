import type { FileChange, ToolOutcome, Workspace, WorkspaceFile } from '../../src/harness/tool.ts';

/** A workspace in memory, for tests of tools. `apply` stores the changes of a tool's outcome, as the session log does. */
export class MemoryWorkspace implements Workspace {
  readonly #files = new Map<string, Uint8Array>();
  readonly reads: string[] = [];

  constructor(files: Record<string, string | Uint8Array> = {}) {
    for (const [path, content] of Object.entries(files)) this.#files.set(path, Buffer.from(content));
  }

  async list(): Promise<WorkspaceFile[]> {
    return [...this.#files].map(([path, content]) => ({ path, size: content.length, updatedAt: new Date(0) }));
  }

  async read(path: string): Promise<Uint8Array | undefined> {
    this.reads.push(path);
    return this.#files.get(path);
  }

  async storeAhead(changes: FileChange[]): Promise<FileChange[]> {
    return changes;
  }

  apply({ changes = [] }: ToolOutcome): void {
    for (const change of changes) if (!('ahead' in change)) this.#change(change);
  }

  text(path: string): string | undefined {
    const content = this.#files.get(path);
    return content === undefined ? undefined : Buffer.from(content).toString();
  }

  paths(): string[] {
    return [...this.#files.keys()].sort();
  }

  #change(change: FileChange): void {
    if ('deleted' in change) this.#files.delete(change.path);
    else this.#files.set(change.path, change.content);
  }
}
