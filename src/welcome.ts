import type { Context } from './context.ts';

/** What a person needs after a start: where it is and, the first time, a line to paste. */
export function welcome({ config, seeded, warnings }: Pick<Context, 'config' | 'seeded' | 'warnings'>, port: number): string {
  const host = config.HOST === '0.0.0.0' || config.HOST === '::' ? '127.0.0.1' : config.HOST;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const dashboard = new URL(`${config.PARLEY_PUBLIC_URL?.replace(/\/+$/, '') ?? url}/dashboard/join`);
  if (config.PARLEY_MANAGEMENT_HOST !== undefined) dashboard.host = config.PARLEY_MANAGEMENT_HOST;
  const agentHost = config.PARLEY_AGENT_HOST === undefined ? '' : `-H "Host: ${config.PARLEY_AGENT_HOST}" `;
  const lines = [`Parley is ready at ${url}`, ...warnings.map((warning) => `Note: ${warning}`)];
  const { apiKey, operatorKey, ownerToken } = seeded;
  if (ownerToken !== undefined) {
    lines.push(
      '',
      ...(apiKey === undefined ? [] : [`API key (shown once): ${apiKey}`]),
      ...(operatorKey === undefined ? [] : [`Operator key:         ${operatorKey}`]),
      `Become the owner:     ${dashboard}?token=${ownerToken}`,
      '',
      apiKey === undefined ? 'A first conversation, where PARLEY_API_KEY is set as it is here:' : 'A first conversation:',
      `curl -s ${url}/demo/assistant/v1/chat/completions ${agentHost}-H "Authorization: Bearer ${apiKey ?? '$PARLEY_API_KEY'}" -H "Content-Type: application/json" -d '{"messages":[{"role":"user","content":"Hello!"}]}'`,
    );
  }
  return `${lines.join('\n')}\n`;
}
