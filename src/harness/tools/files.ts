import { failed, succeeded, type Tool, type ToolOutcome, type Workspace, type WorkspaceFile } from '../tool.ts';
import { excerpt, textField } from './input.ts';
import { changesProblem, collision } from './workspace-changes.ts';
import { parseWorkspacePath } from './workspace-path.ts';

/** Reads and changes the workspace without a shell. It is repeatable, because its changes are written together with its result. */
export const filesTool: Tool = {
  name: 'files',
  description:
    'Read, write, list and delete files of the workspace. Paths are relative to the workspace. ' +
    '`write` replaces the whole file and creates directories as needed; `list` shows every file below `path`, or all of them.',
  inputSchema: {
    type: 'object',
    properties: {
      operation: { type: 'string', enum: ['read', 'write', 'list', 'delete'] },
      path: { type: 'string', description: 'Path of the file; optional for list' },
      content: { type: 'string', description: 'New content of the file, for write' },
    },
    required: ['operation'],
    additionalProperties: false,
  },
  repeatable: true,
  guards: (input) => !['read', 'list'].includes(textField(input, 'operation') ?? ''),
  subject(input) {
    const given = textField(input, 'path') ?? '';
    const parsed = parseWorkspacePath(given);
    return 'path' in parsed ? parsed.path : given;
  },
  problem(input) {
    const action = actionOf(input);
    return 'problem' in action ? action.problem : undefined;
  },
  prompt(input) {
    const path = excerpt(textField(input, 'path') ?? '');
    if (textField(input, 'operation') === 'delete') return `Delete the file ${path}?`;
    return `Write ${Buffer.byteLength(textField(input, 'content') ?? '')} bytes to the file ${path}?`;
  },
  async run(input, { workspace }) {
    const action = actionOf(input);
    if ('problem' in action) return failed(action.problem);
    switch (action.operation) {
      case 'list':
        return list(workspace, action.path);
      case 'read':
        return read(workspace, action.path);
      case 'write':
        return write(workspace, action.path, action.content);
      case 'delete':
        return remove(workspace, action.path);
    }
  },
};

type Action = { operation: 'list' | 'read' | 'delete'; path: string } | { operation: 'write'; path: string; content: string };

function actionOf(input: unknown): Action | { problem: string } {
  const parsed = parseWorkspacePath(textField(input, 'path') ?? '');
  if ('problem' in parsed) return parsed;
  const { path } = parsed;
  const operation = textField(input, 'operation');
  if (operation === 'list') return { operation, path };
  if (path === '') return { problem: 'The path of a file is missing' };
  if (operation === 'read' || operation === 'delete') return { operation, path };
  if (operation !== 'write') return { problem: 'The operation must be one of read, write, list, delete' };
  const content = textField(input, 'content');
  return content === undefined ? { problem: 'The content to write is missing' } : { operation, path, content };
}

async function list(workspace: Workspace, path: string): Promise<ToolOutcome> {
  const files = await workspace.list();
  const shown = files.filter((file) => path === '' || file.path === path || file.path.startsWith(`${path}/`));
  if (shown.length === 0) return path === '' ? succeeded('The workspace is empty.') : failed(`There is nothing at ${path}`);
  return succeeded(shown.sort(byPath).map(describe).join('\n'));
}

async function read(workspace: Workspace, path: string): Promise<ToolOutcome> {
  const content = await workspace.read(path);
  if (content === undefined) return failed(`There is no file ${path}`);
  const text = decodeText(content);
  if (text !== undefined) return succeeded(text);
  return succeeded(`[binary file of ${content.length} bytes, shown in base64]\n${Buffer.from(content).toString('base64')}`);
}

async function write(workspace: Workspace, path: string, content: string): Promise<ToolOutcome> {
  const files = await workspace.list();
  const changes = [{ path, content: new TextEncoder().encode(content) }];
  const problem = collision(files, path) ?? changesProblem(files, changes);
  if (problem !== undefined) return failed(`Nothing was written: ${problem}`);
  return { ...succeeded(`Wrote ${changes[0]?.content.length} bytes to ${path}`), changes: await workspace.storeAhead(changes) };
}

async function remove(workspace: Workspace, path: string): Promise<ToolOutcome> {
  const files = await workspace.list();
  if (!files.some((file) => file.path === path)) return failed(`There is no file ${path}`);
  return { ...succeeded(`Deleted ${path}`), changes: [{ path, deleted: true }] };
}

function decodeText(content: Uint8Array): string | undefined {
  if (content.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content);
  } catch {
    return undefined;
  }
}

function describe(file: WorkspaceFile): string {
  return `${file.path} (${file.size} bytes, ${file.updatedAt.toISOString()})`;
}

function byPath(one: WorkspaceFile, other: WorkspaceFile): number {
  return one.path < other.path ? -1 : 1;
}
