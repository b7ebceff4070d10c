import { costMicros, type PriceOverrides, priceOf } from '../harness/models/prices.ts';
import { type ModelConfig, modelConfigOf, type ReleaseConfig, subAgentOf } from '../release-config.ts';
import { noUsage, type Usage } from '../session/usage.ts';

/** What the turns of a release cost, and how much of that comes from prepaid credits, as the customer's own keys do not pay for it. */
export class Pricing {
  /** Providers of the release, and whether the customer has a key of their own for each now. */
  readonly ownKeys: Map<string, boolean>;
  private readonly config: ReleaseConfig;
  private readonly overrides: PriceOverrides;
  private readonly models: ModelConfig[];

  constructor(config: ReleaseConfig, overrides: PriceOverrides) {
    this.config = config;
    this.overrides = overrides;
    this.models = config.agents.map((agent) => modelConfigOf(config, agent));
    const providers = [config.model, ...this.models].map((model) => model.provider);
    this.ownKeys = new Map(providers.filter((provider) => provider !== 'offline').map((provider) => [provider, false]));
  }

  /** Whether a turn needs no credits because the customer's own keys pay for what it may call, beside models that cost nothing. */
  isOnOwnKeys(): boolean {
    return this.models.some(({ provider }) => this.ownKeys.get(provider)) && !this.needsCredits();
  }

  /** Whether calls of the model cost something, whoever pays for them. */
  costsSomething(model: ModelConfig): boolean {
    return this.priceOfAll(model, 1).costMicros > 0;
  }

  /**
   * The price of the usage on the model of this sub-agent. `calledOnOwnKey` has each provider that the turn has called, and whether all
   * those calls were made with the customer's own key: only then are they free.
   */
  price(subAgent: string, usage: Usage, calledOnOwnKey: ReadonlyMap<string, boolean>) {
    const model = modelConfigOf(this.config, subAgentOf(this.config, subAgent));
    return { model: `${model.provider}/${model.name}`, ...this.priceOf(model, usage, calledOnOwnKey) };
  }

  /** Whether a turn needs prepaid credits: not if its models cost nothing, or the customer's own keys pay for them. */
  needsCredits(): boolean {
    return this.priceAtMost(1).creditMicros > 0;
  }

  /** The highest price of this many tokens, since the turn may be handed to any sub-agent. */
  priceAtMost(tokens: number): { costMicros: number; creditMicros: number } {
    const prices = this.models.map((model) => this.priceOfAll(model, tokens));
    return {
      costMicros: Math.max(...prices.map((price) => price.costMicros)),
      creditMicros: Math.max(...prices.map((price) => price.creditMicros)),
    };
  }

  /** Of input or, where that costs nothing, of output: a turn that reserves no credits is admitted without any. */
  private priceOfAll(model: ModelConfig, tokens: number) {
    const asInput = this.priceOf(model, { ...noUsage, input: tokens });
    return asInput.costMicros > 0 ? asInput : this.priceOf(model, { ...noUsage, output: tokens });
  }

  private priceOf({ provider, name }: ModelConfig, usage: Usage, calledOnOwnKey?: ReadonlyMap<string, boolean>) {
    const cost = costMicros(priceOf(provider, name, this.overrides), usage);
    const isFree = calledOnOwnKey?.get(provider) ?? this.ownKeys.get(provider);
    return { costMicros: cost, creditMicros: isFree ? 0 : cost };
  }
}
