import type { Command } from 'commander';
import { list } from '../../setting-parsers.ts';
import { call, callList } from '../api.ts';
import { day, requireSome, wholeNumberOrNone } from '../given.ts';
import { print, type Row, table } from '../print.ts';

/** Spending caps and usage. */
export function spendingCommands(program: Command): void {
  budget(program.command('budget').description('spending caps'));
  program
    .command('usage')
    .description('show tokens, turns and cost')
    .option('--by <dimensions>', 'some of day, agent, model and end_user, comma-separated', 'day')
    .option('--from <date>', 'first day, YYYY-MM-DD in UTC')
    .option('--to <date>', 'last day, YYYY-MM-DD in UTC')
    .action(async (options: { by: string; from?: string; to?: string }, command: Command) => {
      const query = new URLSearchParams({ group_by: options.by });
      if (options.from !== undefined) query.set('from', day('--from', options.from));
      if (options.to !== undefined) query.set('to', day('--to', options.to));
      const answer = await callList(`/api/usage?${query}`);
      const dimensions = list(options.by).map((name) => (name === 'end_user' ? 'end_user_id' : name));
      print(command, answer, () =>
        table(answer.data, [...dimensions, 'turns', 'input_tokens', 'output_tokens', 'cost_micros'], 'Nothing was used.'),
      );
    });
}

function budget(group: Command): void {
  const show = (answer: { budget: Row }) =>
    Object.entries(answer.budget)
      .map(([name, value]) => `${name}: ${value ?? 'none'}`)
      .join('\n');
  group
    .command('show', { isDefault: true })
    .description('show the caps and what has been used')
    .action(async (_options, command: Command) => {
      const answer = await call<{ budget: Row }>('GET', '/api/budget');
      print(command, answer, () => show(answer));
    });
  group
    .command('set')
    .description('change one or both caps')
    .option('--total-tokens-cap <n>', 'a whole number, or none')
    .option('--instance-spend-cap-micros <n>', 'a whole number, or none')
    .action(async (options: { totalTokensCap?: string; instanceSpendCapMicros?: string }, command: Command) => {
      const body = {
        total_tokens_cap: wholeNumberOrNone('--total-tokens-cap', options.totalTokensCap),
        instance_spend_cap_micros: wholeNumberOrNone('--instance-spend-cap-micros', options.instanceSpendCapMicros),
      };
      const changes = requireSome(body, '--total-tokens-cap or --instance-spend-cap-micros');
      const answer = await call<{ budget: Row }>('PUT', '/api/budget', changes);
      print(command, answer, () => show(answer));
    });
}
