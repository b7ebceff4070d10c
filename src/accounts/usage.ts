import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

export const usageDimensions = ['day', 'agent', 'model', 'end_user'] as const;
export type UsageDimension = (typeof usageDimensions)[number];

export interface UsageQuery {
  /** Over the dimensions that are not given, usage is summed. */
  groupBy: readonly UsageDimension[];
  from: string | undefined;
  to: string | undefined;
  /** A slug, which includes deleted agents that had it. */
  agent: string | undefined;
  model: string | undefined;
  endUserId: string | undefined;
  limit: number;
  /** The `keys` of the last row on the previous page. */
  after: readonly (string | number)[] | undefined;
}

export interface UsageRow {
  /** The values by which the row is grouped, in the order of `usageDimensions`. */
  keys: (string | number)[];
  day: string | undefined;
  agent: string | undefined;
  agentId: number | undefined;
  model: string | undefined;
  endUserId: string | undefined;
  turns: number;
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  costMicros: number;
}

const columns = {
  day: { name: sql`u.day`, type: sql`date` },
  agent: { name: sql`u.agent_id`, type: sql`integer` },
  model: { name: sql`u.model`, type: sql`text` },
  end_user: { name: sql`u.end_user_id`, type: sql`text` },
} as const;

const sums = sql`coalesce(sum(u.turns), 0)::bigint as turns, coalesce(sum(u.input_tokens), 0)::bigint as input_tokens,
  coalesce(sum(u.output_tokens), 0)::bigint as output_tokens, coalesce(sum(u.cached_tokens), 0)::bigint as cached_tokens,
  coalesce(sum(u.cost_micros), 0)::bigint as cost_micros`;

/** What an org used, grouped by the given dimensions and sorted by them. */
export async function readUsage(db: Db, orgId: number, query: UsageQuery): Promise<UsageRow[]> {
  const dimensions = usageDimensions.filter((dimension) => query.groupBy.includes(dimension));
  const keys = dimensions.map((dimension) => columns[dimension].name);
  const conditions = [
    sql`u.org_id = ${orgId}`,
    ...(query.from === undefined ? [] : [sql`u.day >= ${query.from}::date`]),
    ...(query.to === undefined ? [] : [sql`u.day <= ${query.to}::date`]),
    ...(query.agent === undefined ? [] : [sql`u.agent_id in (select id from agents where org_id = ${orgId} and slug = ${query.agent})`]),
    ...(query.model === undefined ? [] : [sql`u.model = ${query.model}`]),
    ...(query.endUserId === undefined ? [] : [sql`u.end_user_id = ${query.endUserId}`]),
    ...(query.after === undefined || keys.length === 0
      ? []
      : [sql`(${sql.join(keys)}) > (${sql.join(afterValues(dimensions, query.after))})`]),
  ];
  const chosen = dimensions.map((dimension) => sql`${columns[dimension].name} as ${sql.ref(dimension)}`);
  const grouping = keys.length === 0 ? sql`` : sql`group by ${sql.join(keys)} order by ${sql.join(keys)}`;
  const { rows } = await sql<Record<string, string | number>>`
    select ${sql.join([...chosen, sums])} from usage_daily u where ${sql.join(conditions, sql` and `)} ${grouping} limit ${query.limit}`.execute(
    db,
  );
  const agentIds = dimensions.includes('agent') ? new Set(rows.map((row) => Number(row.agent))) : new Set<number>();
  const slugs = await agentSlugs(db, orgId, agentIds);
  return rows.map((row) => ({
    keys: dimensions.map((dimension) => row[dimension] ?? ''),
    day: dimensions.includes('day') ? String(row.day) : undefined,
    agent: dimensions.includes('agent') ? slugs.get(Number(row.agent)) : undefined,
    agentId: dimensions.includes('agent') ? Number(row.agent) : undefined,
    model: dimensions.includes('model') ? String(row.model) : undefined,
    endUserId: dimensions.includes('end_user') ? String(row.end_user) : undefined,
    turns: Number(row.turns),
    inputTokens: Number(row.input_tokens),
    outputTokens: Number(row.output_tokens),
    cachedTokens: Number(row.cached_tokens),
    costMicros: Number(row.cost_micros),
  }));
}

function afterValues(dimensions: readonly UsageDimension[], after: readonly (string | number)[]) {
  return dimensions.map((dimension, index) => sql`${after[index]}::${columns[dimension].type}`);
}

/** Includes deleted agents, whose usage is kept. */
async function agentSlugs(db: Db, orgId: number, ids: ReadonlySet<number>): Promise<Map<number, string>> {
  if (ids.size === 0) return new Map();
  const named = db.selectFrom('agents').select(['id', 'slug']).where('org_id', '=', orgId);
  const agents = await named.where('id', 'in', [...ids]).execute();
  return new Map(agents.map((agent) => [agent.id, agent.slug]));
}
