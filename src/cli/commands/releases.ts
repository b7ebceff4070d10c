import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { call } from '../api.ts';
import { jsonObject } from '../given.ts';
import { print, table } from '../print.ts';

type Release = { version: number; state: string; error?: string | null; created_at: string };

export function releaseCommands(program: Command): void {
  const releases = program.command('releases').description('releases (versions) of an agent');
  releases
    .command('list <agent>')
    .description('list releases with their state')
    .action(async (agent: string, _options, command: Command) => {
      const answer = await call<{ data: Release[] }>('GET', `${pathOf(agent)}?limit=200`);
      print(command, answer, () =>
        table(
          answer.data,
          ['version', 'state', 'created_at', 'error'],
          `No releases yet. Create one with: parley releases create ${agent} <file>`,
        ),
      );
    });
  releases
    .command('create <agent> <file>')
    .description('create a release from a JSON file with its config')
    .option('--activate', 'activate it right away')
    .action(async (agent: string, file: string, options: { activate?: boolean }, command: Command) => {
      const config = await jsonObject(file);
      const answer = await call<{ release: Release }>('POST', pathOf(agent), {
        ...config,
        ...(options.activate ? { activate: true } : {}),
      });
      print(command, answer, () => describe(agent, answer.release));
    });
  releases.command('activate <agent> <version>').description('activate a release: new sessions will use it').action(activate);
  releases
    .command('rollback <agent>')
    .description('activate the newest materialized release before the active one')
    .action(async (agent: string, options, command: Command) => {
      const { agent: current } = await call<{ agent: { active_version: number | null } }>(
        'GET',
        `/api/agents/${encodeURIComponent(agent)}`,
      );
      const { data } = await call<{ data: Release[] }>('GET', `${pathOf(agent)}?limit=200`);
      const earlier = data.filter((release) => release.state === 'materialized' && release.version < (current.active_version ?? 0));
      const target = earlier.toSorted((left, right) => right.version - left.version)[0];
      if (target === undefined) throw new Error('there is no earlier materialized release');
      await activate(agent, String(target.version), options, command);
    });
  releases
    .command('watch <agent> <version>')
    .description('wait until a release is materialized or has failed')
    .action(async (agent: string, version: string, _options, command: Command) => {
      for (;;) {
        const answer = await call<{ release: Release }>('GET', `${pathOf(agent)}/${encodeURIComponent(version)}`);
        if (answer.release.state === 'materialized' || answer.release.state === 'failed') {
          print(command, answer, () => describe(agent, answer.release));
          if (answer.release.state === 'failed') process.exitCode = 1;
          return;
        }
        await sleep(500);
      }
    });
}

async function activate(agent: string, version: string, _options: unknown, command: Command): Promise<void> {
  const answer = await call('POST', `${pathOf(agent)}/${encodeURIComponent(version)}/activate`);
  print(command, answer, () => `${agent} now runs release ${version}. Existing sessions keep their release.`);
}

function pathOf(agent: string): string {
  return `/api/agents/${encodeURIComponent(agent)}/releases`;
}

function describe(agent: string, release: Release): string {
  return `Release ${release.version} of ${agent}: ${release.state}${release.error ? ` (${release.error})` : ''}`;
}
