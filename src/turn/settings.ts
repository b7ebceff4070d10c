import { LRUCache } from 'lru-cache';
import type { Agent } from '../accounts/agents.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Release } from '../accounts/releases.ts';
import type { Db } from '../database/database.ts';
import { type Model, ModelError } from '../harness/model.ts';
import type { PriceOverrides } from '../harness/models/prices.ts';
import { sleep } from '../harness/sleep.ts';
import type { Tool, Workspace } from '../harness/tool.ts';
import type { TurnWorld } from '../harness/turn-world.ts';
import { newId } from '../ids.ts';
import { type ModelConfig, modelConfigOf, type SubAgentConfig } from '../release-config.ts';
import { findSession, type Session } from '../session/sessions.ts';
import { atMost } from '../work/at-most.ts';
import { Pricing } from './pricing.ts';
import type { TurnSetting } from './runner.ts';

/** The parts of a session that never change, and what its turns run with. */
export interface SessionSetting extends TurnSetting {
  world: TurnWorld;
  releaseVersion: number;
  endUserId: string | undefined;
  isVisitor: boolean;
  instanceKey: string;
  stored: boolean;
  pricing: Pricing;
}

interface Reading {
  orgId: number;
  setting: Promise<SessionSetting | undefined>;
}

/** What makes a release runnable; `create-settings.ts` puts it together. */
export interface SettingParts {
  db: Db;
  directory: Directory;
  prices: PriceOverrides;
  /** `isOnOwnKey` says whether its calls are made with the organization's own key. */
  modelFor(orgId: number, config: ModelConfig): Promise<{ model: Model; isOnOwnKey: boolean }>;
  /** The model, with its calls traced. */
  traced(model: Model, sessionId: string): Model;
  toolsFor(session: Session, release: Release, agent: SubAgentConfig): Tool[];
  workspaceFor(session: Session): Workspace;
  /** Closes what the turns of a session hold open. */
  closeSession(sessionId: string): void;
}

/** Settings of sessions that are in use, kept in memory: the pinned parts of a session do not change while it lives. */
export class Settings {
  private readonly parts: SettingParts;
  private readonly cache = new LRUCache<string, SessionSetting>(atMost(10_000));
  /**
   * The read of each session that is under way. Whoever asks meanwhile waits for it, so that two messages keep their order. If the session
   * is forgotten meanwhile, its result is not kept: it may be outdated.
   */
  private readonly readings = new Map<string, Reading>();
  /** Called when a session is forgotten. */
  onForgotten: (sessionId: string) => void = () => {};

  constructor(parts: SettingParts) {
    this.parts = parts;
  }

  async of(orgId: number, sessionId: string): Promise<SessionSetting | undefined> {
    const cached = this.cache.get(sessionId);
    if (cached !== undefined) return cached.orgId === orgId ? this.refreshed(cached) : undefined;
    const underWay = this.readings.get(sessionId);
    const setting = await (underWay?.orgId === orgId ? underWay.setting : this.startReading(orgId, sessionId));
    return setting && this.refreshed(setting);
  }

  private startReading(orgId: number, sessionId: string): Promise<SessionSetting | undefined> {
    const isNewest = () => this.readings.get(sessionId) === reading;
    const read = async () => {
      try {
        const { setting, mayKeep = false } = (await this.read(orgId, sessionId)) ?? {};
        if (setting !== undefined && mayKeep && isNewest()) this.cache.set(sessionId, setting);
        return setting;
      } finally {
        if (isNewest()) this.readings.delete(sessionId);
      }
    };
    const reading = { orgId, setting: read() };
    this.readings.set(sessionId, reading);
    return reading.setting;
  }

  /** Keeps the setting of a session that was just created, so that its first turn need not read it. */
  keep(session: Session, release: Release, agentSlug: string): void {
    this.cache.set(session.id, this.build(session, release, agentSlug));
  }

  /** A model to try the organization's own key with. The operator's key is for turns only, since the cost of a trial is not counted. */
  async modelOnOwnKey(orgId: number, config: ModelConfig): Promise<Model> {
    const { provider } = config;
    const needsKey = provider !== 'offline' && provider !== 'openai-compatible';
    if (needsKey && (await this.parts.directory.sealedCredential(orgId, provider)) === undefined)
      throw new ModelError('byok_key_rejected', provider, `No API key is stored for ${provider}`);
    return (await this.parts.modelFor(orgId, config)).model;
  }

  /** Whether the turns of a new session of the agent need prepaid credits, as far as that is known: without a release they do. */
  async needsCredits(agent: Agent): Promise<boolean> {
    const release = await this.parts.directory.activeRelease(agent);
    if (release === undefined) return true;
    const pricing = new Pricing(release.config, this.parts.prices);
    await this.lookUpKeys(agent.orgId, pricing);
    return pricing.needsCredits();
  }

  /** For a session that was stopped or dropped. */
  forget(sessionId: string): void {
    this.cache.delete(sessionId);
    this.readings.delete(sessionId);
    this.parts.closeSession(sessionId);
    this.onForgotten(sessionId);
  }

  /** For when it is not known which sessions were dropped. What their turns hold open is closed when it is idle. */
  forgetAll(): void {
    this.cache.clear();
    this.readings.clear();
  }

  /** `mayKeep` unless its release may still change. */
  private async read(orgId: number, sessionId: string): Promise<{ setting: SessionSetting; mayKeep: boolean } | undefined> {
    const session = await findSession(this.parts.db, orgId, sessionId);
    if (session === undefined) return undefined;
    const { directory } = this.parts;
    const release = await directory.release(orgId, session.agentId, session.releaseVersion);
    if (release === undefined) return undefined;
    // A turn whose agent was deleted while it ran still has to be ended, perhaps by a process that never knew the agent.
    const agent = (await directory.agentById(orgId, session.agentId)) ?? (await this.findDeleted(session.agentId));
    return { setting: this.build(session, release, agent.slug), mayKeep: release.state === 'materialized' };
  }

  private async refreshed(setting: SessionSetting): Promise<SessionSetting> {
    await this.lookUpKeys(setting.orgId, setting.pricing);
    return setting;
  }

  /** Looks up which providers the organization has a key of its own for: that may change while a session lives. */
  private async lookUpKeys(orgId: number, { ownKeys }: Pricing): Promise<void> {
    for (const provider of ownKeys.keys())
      ownKeys.set(provider, (await this.parts.directory.sealedCredential(orgId, provider)) !== undefined);
  }

  private async hasLimitedCredits(orgId: number): Promise<boolean> {
    const budgets = this.parts.db.selectFrom('budgets').select('credits_micros').where('org_id', '=', orgId);
    return (await budgets.executeTakeFirstOrThrow()).credits_micros !== null;
  }

  private async findDeleted(agentId: number): Promise<{ slug: string }> {
    return this.parts.db.selectFrom('agents').select('slug').where('id', '=', agentId).executeTakeFirstOrThrow();
  }

  private build(session: Session, release: Release, agentSlug: string): SessionSetting {
    const { parts } = this;
    const { config } = release;
    const tools = new Map<string, Tool[]>();
    const pricing = new Pricing(config, parts.prices);
    const modelOf = async (agent: SubAgentConfig, holdsNoCredits: boolean, calledOnOwnKey: Map<string, boolean>) => {
      const modelConfig = modelConfigOf(config, agent);
      const { provider } = modelConfig;
      const { model, isOnOwnKey } = await parts.modelFor(session.orgId, modelConfig);
      const isPaid = isOnOwnKey || !pricing.costsSomething(modelConfig);
      if (holdsNoCredits && !isPaid && (await this.hasLimitedCredits(session.orgId)))
        throw new ModelError('byok_key_rejected', provider, `The API key for ${provider} was deleted, and this turn holds no credits`);
      calledOnOwnKey.set(provider, isOnOwnKey && calledOnOwnKey.get(provider) !== false);
      return parts.traced(model, session.id);
    };
    const world: TurnWorld = {
      release: config,
      permissionMode: session.permissionMode ?? config.permissions.mode,
      modelFor: (agent, holdsNoCredits) => modelOf(agent, holdsNoCredits, new Map()),
      toolsFor(agent) {
        const known = tools.get(agent.name) ?? parts.toolsFor(session, release, agent);
        tools.set(agent.name, known);
        return known;
      },
      workspace: parts.workspaceFor(session),
      isWatched: () => true,
      newId,
      sleep,
    };
    return {
      orgId: session.orgId,
      sessionId: session.id,
      agentId: session.agentId,
      agentSlug,
      releaseVersion: session.releaseVersion,
      endUserId: session.endUserId,
      isVisitor: session.isVisitor,
      instanceKey: session.instanceKey,
      stored: session.stored,
      pricing,
      timeoutSeconds: config.limits.turn_timeout_s,
      world,
      forTurn() {
        const calledOnOwnKey = new Map<string, boolean>();
        return {
          agentSlug,
          price: (subAgent, usage) => pricing.price(subAgent, usage, calledOnOwnKey),
          world: { ...world, modelFor: (agent, holdsNoCredits) => modelOf(agent, holdsNoCredits, calledOnOwnKey) },
        };
      },
    };
  }
}
