import type { Context } from './context.ts';

/** What a person needs after a start: where it is and, the first time, a line to paste. */
export function welcome(context: Context, port: number): string {
  const { config, seeded, warnings } = context;
  const host = config.HOST === '0.0.0.0' || config.HOST === '::' ? '127.0.0.1' : config.HOST;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const publicUrl = config.PARLEY_PUBLIC_URL?.replace(/\/+$/, '') ?? url;
  const lines = [`Parley is ready at ${url}`, ...warnings.map((warning) => `Note: ${warning}`)];
  if (seeded.apiKey !== undefined) {
    lines.push(
      '',
      `API key (shown once): ${seeded.apiKey}`,
      ...(seeded.operatorKey === undefined ? [] : [`Operator key:         ${seeded.operatorKey}`]),
      ...(seeded.ownerToken === undefined ? [] : [`Become the owner:     ${publicUrl}/dashboard/join?token=${seeded.ownerToken}`]),
      '',
      'A first conversation:',
      `curl -s ${url}/demo/assistant/v1/chat/completions -H "Authorization: Bearer ${seeded.apiKey}" -H "Content-Type: application/json" -d '{"messages":[{"role":"user","content":"Hello!"}]}'`,
    );
  }
  return `${lines.join('\n')}\n`;
}
