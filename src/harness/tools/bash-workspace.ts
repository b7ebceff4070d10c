import { hash } from 'node:crypto';
import type { InMemoryFs } from 'just-bash';
import type { FileChange, WorkspaceFile } from '../tool.ts';
import { workspaceRoot } from './workspace-path.ts';

/** The files of the workspace that a command has read. The others are not loaded from the database. */
export class LoadedFiles {
  private readonly request: (path: string) => Promise<Uint8Array | undefined>;
  private readonly digests = new Map<string, string>();
  /** A command may read a file several times at once, as `sort a a` does: it is requested once. */
  private readonly loading = new Map<string, Promise<Uint8Array>>();
  private collecting: string | undefined;
  private untouched = false;

  constructor(request: (path: string) => Promise<Uint8Array | undefined>) {
    this.request = request;
  }

  async load(path: string): Promise<Uint8Array> {
    // Not read by the command, only by the comparison after it: so it is unchanged, and need not be loaded.
    if (this.collecting === path) {
      this.untouched = true;
      return new Uint8Array();
    }
    const content = this.loading.get(path) ?? this.fetch(path).finally(() => this.loading.delete(path));
    this.loading.set(path, content);
    return content;
  }

  private async fetch(path: string): Promise<Uint8Array> {
    const content = (await this.request(path)) ?? new Uint8Array();
    this.digests.set(path, digest(content));
    return content;
  }

  /** The content at this path, if the command has changed it. */
  async changed(path: string, read: () => Promise<Uint8Array>): Promise<Uint8Array | undefined> {
    this.collecting = path;
    this.untouched = false;
    const content = await read();
    this.collecting = undefined;
    if (this.untouched || this.digests.get(path) === digest(content)) return undefined;
    return content;
  }
}

/** Two sessions that share a workspace can create both `a` and `a/b`. A file system can hold only one of them, so `a/b` is left out. */
export function withoutShadowed(files: readonly WorkspaceFile[]): WorkspaceFile[] {
  const paths = new Set(files.map((file) => file.path));
  return files.filter(({ path }) => {
    for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', end + 1)) if (paths.has(path.slice(0, end))) return false;
    return true;
  });
}

/** The changes that a command made to the files of the workspace. */
export async function collectChanges(
  fileSystem: InMemoryFs,
  before: readonly WorkspaceFile[],
  loaded: LoadedFiles,
): Promise<{ changes: FileChange[]; notes: string[] }> {
  const found = await walk(fileSystem, workspaceRoot);
  const changes: FileChange[] = [];
  const present = new Set<string>();
  for (const absolute of found.files) {
    const path = absolute.slice(workspaceRoot.length + 1);
    present.add(path);
    const content = await loaded.changed(path, () => fileSystem.readFileBuffer(absolute));
    if (content !== undefined) changes.push({ path, content });
  }
  for (const { path } of before) if (!present.has(path)) changes.push({ path, deleted: true });
  return { changes, notes: notesOn(found) };
}

interface Found {
  files: string[];
  links: string[];
  emptyDirectories: string[];
}

async function walk(fileSystem: InMemoryFs, directory: string): Promise<Found> {
  const found: Found = { files: [], links: [], emptyDirectories: [] };
  const waiting = [directory];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const entries = await fileSystem.readdirWithFileTypes(next);
    if (entries.length === 0 && next !== directory) found.emptyDirectories.push(next);
    for (const entry of entries) {
      const path = `${next}/${entry.name}`;
      if (entry.isSymbolicLink) found.links.push(path);
      else if (entry.isDirectory) waiting.push(path);
      else found.files.push(path);
    }
  }
  return found;
}

function notesOn({ links, emptyDirectories }: Found): string[] {
  const notes: string[] = [];
  if (links.length > 0) notes.push(`symbolic links are not kept: ${names(links)}`);
  if (emptyDirectories.length > 0) notes.push(`empty directories are not kept: ${names(emptyDirectories)}`);
  return notes;
}

function names(paths: string[]): string {
  // A name in the shell can have megabytes.
  const shown = paths.slice(0, 5).map((path) => path.slice(workspaceRoot.length + 1).slice(0, 200));
  return paths.length > 5 ? `${shown.join(', ')} and ${paths.length - 5} more` : shown.join(', ');
}

function digest(content: Uint8Array): string {
  return hash('sha256', content, 'base64');
}
