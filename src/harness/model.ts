import type { ModelConfig } from '../release-config.ts';
import type { Usage } from '../session/usage.ts';

/** A language model as the loop sees it. Every provider, and the offline model, implements this. */
export interface Model {
  readonly provider: string;
  readonly name: string;
  /** How many tokens one call may hold, input and output together. */
  readonly contextLimit: number;
  /** Whether this answer can be requested in one piece, which costs a fraction of streaming it. */
  answersWhole?(call: ModelCall): boolean;
  /**
   * Gives one answer, as it comes or whole. Throws `ModelError`, before or after the first part. Ends with one `finish`.
   * Aborting the signal ends the iteration with the signal's reason.
   */
  stream(call: ModelCall, signal: AbortSignal): AsyncIterable<ModelPart>;
}

export interface ModelCall {
  instructions: string;
  /** The conversation so far: a stable prefix, so that a provider's prompt cache holds. */
  messages: readonly PromptMessage[];
  tools: readonly ModelTool[];
  /** Ask the provider for its extended thinking. */
  thinking: boolean;
  /** Request the answer in one piece, because nobody watches it. Only for a model that `answersWhole`. */
  whole?: boolean;
  settings: ModelConfig['settings'];
  /** How many characters of the answer have arrived. The model adds to it, also for the input of a tool call that is not complete yet. */
  received: number;
}

export type PromptMessage =
  /** `told`: a message that began no turn: a system message that a client sent along, or what one participant told another. */
  | { role: 'user'; text: string; name?: string; files?: string[]; told?: true }
  | { role: 'assistant'; parts: AssistantPart[] }
  | { role: 'tool'; results: ToolResultPart[] };

export type AssistantPart =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string; providerMetadata?: Record<string, unknown> }
  | { type: 'tool-call'; callId: string; tool: string; input: unknown; providerMetadata?: Record<string, unknown> };

export interface ToolResultPart {
  callId: string;
  tool: string;
  output: string;
  isError: boolean;
}

export interface ModelTool {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
}

export type ModelPart =
  // `isLast`: it came together with the end of the answer.
  | { type: 'text-delta'; text: string; isLast?: true }
  | { type: 'reasoning-delta'; text: string }
  // Ends one block of reasoning; an answer may hold several. Each goes back with its own metadata, one without text too.
  | { type: 'reasoning-end'; providerMetadata?: Record<string, unknown> }
  | { type: 'tool-call'; tool: string; input: unknown; providerMetadata?: Record<string, unknown> }
  | { type: 'finish'; usage: Usage };

export type ModelErrorCode =
  | 'byok_key_rejected' // 401, 403 of the provider
  | 'rate_limited' // 429
  | 'overloaded' // 503, 529
  | 'broken_stream' // the connection or the stream ended early
  | 'context_length_exceeded'
  | 'invalid_model_request' // any other 4xx of the provider
  | 'model_error'; // anything else

export class ModelError extends Error {
  readonly code: ModelErrorCode;
  readonly provider: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ModelErrorCode, provider: string, message: string, options: { retryAfterSeconds?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ModelError';
    this.code = code;
    this.provider = provider;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get retryable(): boolean {
    return this.code === 'rate_limited' || this.code === 'overloaded' || this.code === 'broken_stream' || this.code === 'model_error';
  }
}
