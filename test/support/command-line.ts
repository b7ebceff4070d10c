// Runs the command line in a process of its own, against a listening server.
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestApp } from './app.ts';

export const main = join(import.meta.dirname, '../../src/cli/main.ts');
/** The compile cache is set by the installed command, too. */
export const baseEnvironment = { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE };

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

export async function run(settings: Record<string, string>, args: string[], input = ''): Promise<Ran> {
  const child = spawn(process.execPath, [main, ...args], { cwd: tmpdir(), env: { ...baseEnvironment, ...settings } });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stdout, stderr };
}

export async function commandLine(app: TestApp): Promise<(args: string[], input?: string) => Promise<Ran>> {
  const settings = { PARLEY_URL: await app.listen(), PARLEY_API_KEY: app.apiKey, PARLEY_OPERATOR_KEY: app.operatorKey };
  return (args, input) => run(settings, args, input);
}
