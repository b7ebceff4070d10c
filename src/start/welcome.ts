import { localUrl } from '../config.ts';
import type { Context } from '../context.ts';

/** What a start prints: the server's URL and, the first time, its keys and a command to try. */
export function welcome({ config, seeded, warnings }: Pick<Context, 'config' | 'seeded' | 'warnings'>, port: number): string {
  const url = localUrl(config.HOST, port);
  const dashboard = new URL(`${config.PARLEY_PUBLIC_URL?.replace(/\/+$/, '') ?? url}/dashboard/join`);
  if (config.PARLEY_MANAGEMENT_HOST !== undefined) dashboard.host = config.PARLEY_MANAGEMENT_HOST;
  // Whoever set it has it, and what a container prints is collected.
  const operatorKey = config.PARLEY_OPERATOR_KEY === undefined ? seeded.operatorKey : undefined;
  const agentHost = config.PARLEY_AGENT_HOST === undefined ? '' : `-H "Host: ${config.PARLEY_AGENT_HOST}" `;
  const lines = [`Parley is ready at ${url}`, ...warnings.map((warning) => `Note: ${warning}`)];
  if (seeded.apiKey !== undefined) {
    lines.push(
      '',
      `API key (shown once): ${seeded.apiKey}`,
      ...(operatorKey === undefined ? [] : [`Operator key:         ${operatorKey}`]),
      ...(seeded.ownerToken === undefined ? [] : [`Become the owner:     ${dashboard}?token=${seeded.ownerToken}`]),
      '',
      'A first conversation:',
      `curl -s ${url}/demo/assistant/v1/chat/completions ${agentHost}-H "Authorization: Bearer ${seeded.apiKey}" -H "Content-Type: application/json" -d '{"messages":[{"role":"user","content":"Hello!"}]}'`,
    );
  }
  return `${lines.join('\n')}\n`;
}
