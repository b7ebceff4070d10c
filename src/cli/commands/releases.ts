import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { call, callList } from '../api.ts';
import { jsonObject } from '../given.ts';
import { jsonText, print, table } from '../print.ts';

type Config = { instructions: string; main: string; agents: { name: string; instructions?: string | undefined }[] };
type Release = { version: number; state: string; active: boolean; error?: string | null; created_at: string };

export function releaseCommands(program: Command): void {
  const releases = program.command('releases').description('releases (versions) of an agent');
  releases
    .command('list <agent>')
    .description('list releases with their state')
    .action(async (agent: string, _options, command: Command) => {
      const answer = await callList<Release>(pathOf(agent));
      print(command, answer, () =>
        table(
          answer.data,
          ['version', 'state', 'active', 'created_at', 'error'],
          `No releases yet. Create one with: parley releases create ${agent} <file>`,
        ),
      );
    });
  releases
    .command('show <agent> <version>')
    .description('print the config of a release, as `create` takes it; with --json all of the release')
    .action(async (agent: string, version: string, _options, command: Command) => {
      const answer = await call<{ release: { config: Config } }>('GET', `${pathOf(agent)}/${encodeURIComponent(version)}`);
      print(command, answer, () => jsonText(withoutCopy(answer.release.config)));
    });
  releases
    .command('create <agent> <file>')
    .description('create a release from a JSON file with its config; - reads it from standard input')
    .option('--activate', 'activate it once it is materialized; if that fails, the active release stays')
    .action(async (agent: string, file: string, options: { activate?: boolean }, command: Command) => {
      const made = await call<{ release: Release }>('POST', pathOf(agent), await jsonObject(file));
      if (!options.activate) return report(command, agent, made);
      const answer = await waitUntilSettled(agent, made.release.version);
      if (answer.release.state === 'failed') return report(command, agent, answer);
      report(command, agent, await call('POST', `${pathOf(agent)}/${answer.release.version}/activate`));
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
      const { data } = await callList<Release>(pathOf(agent));
      const earlier = data.filter((release) => release.state === 'materialized' && release.version < (current.active_version ?? 0));
      const target = earlier.toSorted((left, right) => right.version - left.version)[0];
      if (target === undefined) throw new Error('there is no earlier materialized release');
      await activate(agent, String(target.version), options, command);
    });
  releases
    .command('watch <agent> <version>')
    .description('wait until a release is materialized or has failed')
    .action(async (agent: string, version: string, _options, command: Command) => {
      report(command, agent, await waitUntilSettled(agent, version));
    });
}

/** A config to edit: the server also keeps the instructions in the main sub-agent, where they win over those that a person would change. */
function withoutCopy(config: Config): Config {
  const agents = config.agents.map(({ instructions, ...agent }) =>
    agent.name === config.main && instructions === config.instructions ? agent : { ...agent, instructions },
  );
  return { ...config, agents };
}

async function activate(agent: string, version: string, _options: unknown, command: Command): Promise<void> {
  await call('POST', `${pathOf(agent)}/${encodeURIComponent(version)}/activate`);
  // Activating a release that had failed materializes it again.
  const answer = await waitUntilSettled(agent, version);
  if (answer.release.state === 'failed') return report(command, agent, answer);
  print(command, answer, () => `${agent} now runs release ${version}. Existing sessions keep their release.`);
}

/** Polls until the release is materialized or has failed. */
async function waitUntilSettled(agent: string, version: number | string): Promise<{ release: Release }> {
  for (;;) {
    const answer = await call<{ release: Release }>('GET', `${pathOf(agent)}/${encodeURIComponent(version)}`);
    if (answer.release.state === 'materialized' || answer.release.state === 'failed') return answer;
    await sleep(500);
  }
}

function report(command: Command, agent: string, answer: { release: Release }): void {
  const { version, state, active, error } = answer.release;
  const next = active ? ', active' : state === 'materialized' ? `. Activate it with: parley releases activate ${agent} ${version}` : '';
  print(command, answer, () => `Release ${version} of ${agent}: ${state}${error ? ` (${error})` : ''}${next}`);
  if (state === 'failed') process.exitCode = 1;
}

function pathOf(agent: string): string {
  return `/api/agents/${encodeURIComponent(agent)}/releases`;
}
