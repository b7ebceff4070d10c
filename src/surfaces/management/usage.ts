import { readUsage, type UsageDimension, type UsageRow, usageDimensions } from '../../accounts/usage.ts';
import { validDay } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';
import { answered } from '../shared/schemas/answers.ts';
import { badCursor, decodeCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';

const usageRow = Type.Object(
  {
    day: Type.Optional(Type.String({ description: 'In UTC.' })),
    agent: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    agent_id: Type.Optional(Type.Integer({ description: 'Tells a deleted agent from the one that has its slug now.' })),
    model: Type.Optional(Type.String({ description: 'provider/name' })),
    end_user_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    turns: Type.Integer(),
    input_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
    cached_tokens: Type.Integer(),
    cost_micros: Type.Integer(),
  },
  { title: 'Usage' },
);

const query = Type.Object({
  ...pageQuery,
  group_by: Type.Optional(
    Type.String({ description: 'Comma-separated list of day, agent, model and end_user (default: all). The rest is summed.' }),
  ),
  from: Type.Optional(Type.String({ description: 'First day, YYYY-MM-DD, in UTC.' })),
  to: Type.Optional(Type.String({ description: 'Last day, likewise.' })),
  agent: Type.Optional(Type.String({ description: 'Slug of an agent, which may be deleted.' })),
  model: Type.Optional(Type.String()),
  end_user_id: Type.Optional(Type.String()),
});

/** The type that each dimension has in a cursor. */
const cursorShape = { day: 'text', agent: 'integer', model: 'text', end_user: 'text' } as const;

export function usageRoutes(server: Server, context: Context): void {
  server.get(
    '/api/usage',
    {
      config: { family: 'management' },
      onRequest: [requireKey(context, 'usage:read')],
      schema: {
        tags: ['Budget and usage'],
        summary: 'Read usage by day, agent, model and end user',
        querystring: query,
        response: answered(200, listOf(usageRow)),
      },
    },
    async (request) => {
      const { id: orgId } = principalOf(request).organization;
      const groupBy = dimensionsOf(request.query.group_by);
      // Part of the cursor: with another grouping it is another list, and the cursor's values would be compared with other columns.
      const list = `usage by ${groupBy.join(' ')}`;
      const after = decodeCursor(
        list,
        request.query.cursor,
        groupBy.map((dimension) => cursorShape[dimension]),
      );
      if (after !== undefined && groupBy.includes('day') && validDay(String(after[0])) === undefined) throw badCursor();
      return readPage(
        list,
        limitOf(request.query),
        (limit) =>
          readUsage(context.database.db, orgId, {
            groupBy,
            from: readDay(request.query.from, 'from'),
            to: readDay(request.query.to, 'to'),
            agent: request.query.agent || undefined,
            model: request.query.model || undefined,
            endUserId: request.query.end_user_id || undefined,
            limit,
            after,
          }),
        (row) => row.keys,
        showUsage(groupBy),
      );
    },
  );
}

function dimensionsOf(text: string | undefined): UsageDimension[] {
  if (text === undefined) return [...usageDimensions];
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => name !== '' && !usageDimensions.some((dimension) => dimension === name));
  if (unknown !== undefined) throw new ServiceError('invalid', `group_by: must be some of ${usageDimensions.join(', ')}`);
  return usageDimensions.filter((dimension) => names.includes(dimension));
}

function readDay(text: string | undefined, field: string): string | undefined {
  // An empty value, as a form sends it, counts as absent.
  if (text === undefined || text === '') return undefined;
  const valid = validDay(text);
  if (valid === undefined) throw new ServiceError('invalid', `${field}: must be a day, YYYY-MM-DD`);
  return valid;
}

function showUsage(groupBy: readonly UsageDimension[]) {
  return (row: UsageRow) => ({
    ...(row.day === undefined ? {} : { day: row.day }),
    ...(groupBy.includes('agent') ? { agent: row.agent ?? null, agent_id: row.agentId } : {}),
    ...(row.model === undefined ? {} : { model: row.model }),
    ...(row.endUserId === undefined ? {} : { end_user_id: row.endUserId === '' ? null : row.endUserId }),
    turns: row.turns,
    input_tokens: row.inputTokens,
    output_tokens: row.outputTokens,
    total_tokens: row.inputTokens + row.outputTokens,
    cached_tokens: row.cachedTokens,
    cost_micros: row.costMicros,
  });
}
