import { failed, succeeded, type Tool } from '../tool.ts';
import { textField } from './input.ts';

/** Lets one sub-agent pass the conversation to another. `agents` are the ones it may pass it to. */
export function createHandoffTool(agents: readonly string[]): Tool {
  return {
    name: 'handoff',
    description: `Hand the conversation over to another agent, which then answers the user. Agents: ${agents.join(', ')}.`,
    inputSchema: {
      type: 'object',
      properties: { agent: { type: 'string', enum: [...agents], description: 'Name of the agent that takes over' } },
      required: ['agent'],
      additionalProperties: false,
    },
    repeatable: true,
    guards: () => false,
    subject: (input) => textField(input, 'agent') ?? '',
    problem: (input) => problemOf(agents, textField(input, 'agent') ?? ''),
    prompt: (input) => `Hand the conversation over to ${textField(input, 'agent') ?? ''}?`,
    async run(input) {
      const agent = textField(input, 'agent') ?? '';
      const problem = problemOf(agents, agent);
      if (problem !== undefined) return failed(problem);
      return { ...succeeded(`The conversation is now with ${agent}.`), handoff: agent };
    },
  };
}

function problemOf(agents: readonly string[], agent: string): string | undefined {
  return agents.includes(agent) ? undefined : `There is no agent "${agent}" to hand over to. Agents: ${agents.join(', ')}`;
}
