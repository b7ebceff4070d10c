/**
 * How many tokens a model takes, by the beginning of its name; the first match counts. Where models of a family differ, this is the
 * lowest: a limit that is too low only condenses early, one that is too high fails. `context.limit_tokens` of a release wins.
 */
const limits: readonly [prefix: string, tokens: number][] = [
  ['claude-', 200_000],
  ['gpt-3.5', 16_000],
  ['gpt-4.1', 1_047_576],
  ['gpt-4', 128_000],
  ['gpt-5-chat', 128_000],
  ['gpt-oss', 128_000],
  ['gpt-', 400_000],
  ['o1-mini', 128_000],
  ['o1', 200_000],
  ['o3', 200_000],
  ['o4', 200_000],
  ['gemini-', 1_048_576],
  ['gemma-2', 8_000],
  ['gemma2', 8_000],
  ['gemma-3n', 32_000],
  ['gemma3n', 32_000],
  ['gemma-3-1b', 32_000],
  ['gemma3:1b', 32_000],
  ['gemma', 128_000],
  ['llama3.', 128_000],
  ['llama3', 8_000],
  ['llama-3-', 8_000],
  ['mistral-7b', 32_000],
  ['qwen2.5', 32_000],
  ['qwen3', 32_000],
];
const defaultLimit = 128_000;

/** Gateways name models `vendor/model`: only the model counts. */
export function contextLimitOf(name: string): number {
  const model = name.slice(name.lastIndexOf('/') + 1).toLowerCase();
  return limits.find(([prefix]) => model.startsWith(prefix))?.[1] ?? defaultLimit;
}
