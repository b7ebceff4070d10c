/** Tokens as a provider counts them; `input` includes `cachedInput`. */
export interface Usage {
  input: number;
  output: number;
  cachedInput: number;
}

export const noUsage: Usage = { input: 0, output: 0, cachedInput: 0 };

export function addUsage(left: Usage, right: Usage): Usage {
  return {
    input: left.input + right.input,
    output: left.output + right.output,
    cachedInput: left.cachedInput + right.cachedInput,
  };
}

export function subtractUsage(whole: Usage, part: Usage): Usage {
  return {
    input: whole.input - part.input,
    output: whole.output - part.output,
    cachedInput: whole.cachedInput - part.cachedInput,
  };
}

/** As the native, managed and responses surfaces show it. */
export function wireUsage(usage: Usage): { input_tokens: number; output_tokens: number; total_tokens: number } {
  return { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.input + usage.output };
}
