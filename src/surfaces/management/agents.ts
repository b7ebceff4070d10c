import { setTimeout as sleep } from 'node:timers/promises';
import { type Agent, createAgent, deleteAgent, listAgents, updateAgent } from '../../accounts/agents.ts';
import type { Organization } from '../../accounts/principal.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { notFound, orNotFound } from '../../errors.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change, changeOnce } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { agentOf } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { decodeIntegerCursor, limitOf, listOf, pageQuery, readPage } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { requireAgentOfPath } from './path.ts';
import { releaseState } from './release-schemas.ts';

const tags = ['Agents'];
const config = { family: 'management' as const };
/** How long the deletion of an agent waits for its approvals to be withdrawn: long enough for hundreds of them. */
const withdrawingMs = 2_000;

const agentObject = Type.Object(
  {
    id: Type.Integer(),
    slug: Type.String(),
    name: Type.String(),
    description: Type.String(),
    default: Type.Boolean({ description: "Whether it is the organization's default agent, which the flat routes use." }),
    active_version: Type.Union([Type.Integer(), Type.Null()], { description: 'The release that new sessions use.' }),
    active_state: Type.Union([releaseState, Type.Null()], {
      description: 'State of that release; until it is `materialized`, new sessions and turns get 409.',
    }),
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  {
    title: 'Agent',
    examples: [
      {
        id: 1,
        slug: 'assistant',
        name: 'Assistant',
        description: 'Answers questions',
        default: true,
        active_version: 1,
        active_state: 'materialized',
        created_at: '2026-01-31T12:00:00.000+00:00',
        updated_at: '2026-01-31T12:00:00.000+00:00',
      },
    ],
  },
);

const name = Type.String({ minLength: 1, maxLength: 200 });
const description = Type.String({ maxLength: 2_000 });

const createBody = Type.Object(
  {
    slug: Type.String({ description: 'Part of the agent’s URL: 1 to 63 of a-z 0-9 _ -.' }),
    name: Type.Optional(name),
    description: Type.Optional(description),
    default: Type.Optional(Type.Boolean({ default: false })),
  },
  { title: 'CreateAgent', additionalProperties: false, examples: [{ slug: 'support', name: 'Support', description: 'Helps customers' }] },
);

const updateBody = Type.Object(
  { name: Type.Optional(name), description: Type.Optional(description), default: Type.Optional(Type.Boolean()) },
  { title: 'UpdateAgent', additionalProperties: false, examples: [{ name: 'Support desk' }] },
);

export function agentRoutes(server: Server, context: Context): void {
  server.get(
    '/api/agents',
    {
      config,
      onRequest: [requireKey(context, 'agents:read')],
      schema: { tags, summary: 'List agents', querystring: Type.Object(pageQuery), response: answered(200, listOf(agentObject)) },
    },
    async (request) => {
      const { organization } = principalOf(request);
      const after = decodeIntegerCursor('agents', request.query.cursor);
      return readPage(
        'agents',
        limitOf(request.query),
        (limit) => listAgents(context.database.db, organization.id, { limit, after }),
        (agent) => agent.id,
        (agent) => showAgent(agent, organization),
      );
    },
  );

  server.post(
    '/api/agents',
    {
      config,
      onRequest: [requireKey(context, 'agents:write')],
      schema: { tags, summary: 'Create an agent', body: createBody, response: answered(201, Type.Object({ agent: agentObject })) },
    },
    async (request, reply) => {
      const { slug, name = slug, description = '', default: isDefault = false } = request.body;
      return changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const agent = await createAgent(transaction, actor, { slug, name, description, isDefault });
        const { organization } = principalOf(request);
        return { agent: showAgent(agent, isDefault ? { ...organization, defaultAgentId: agent.id } : organization) };
      });
    },
  );

  server.get(
    '/api/agents/:slug',
    {
      config,
      onRequest: requireAgentOfPath(context, 'agents:read'),
      schema: { tags, summary: 'Fetch an agent', response: answered(200, Type.Object({ agent: agentObject })) },
    },
    async (request) => ({ agent: showAgent(agentOf(request), principalOf(request).organization) }),
  );

  server.patch(
    '/api/agents/:slug',
    {
      config,
      onRequest: requireAgentOfPath(context, 'agents:write'),
      schema: { tags, summary: 'Change an agent', body: updateBody, response: answered(200, Type.Object({ agent: agentObject })) },
    },
    async (request) => {
      const { name, description, default: isDefault } = request.body;
      const { id } = agentOf(request);
      const changes = { name, description, isDefault };
      const agent = orNotFound(await change(context, request, (transaction, actor) => updateAgent(transaction, actor, id, changes)));
      const { organization } = principalOf(request);
      const changed = isDefault === undefined ? organization : { ...organization, defaultAgentId: isDefault ? id : undefined };
      return { agent: showAgent(agent, changed) };
    },
  );

  server.delete(
    '/api/agents/:slug',
    {
      config,
      onRequest: requireAgentOfPath(context, 'agents:write'),
      schema: {
        tags,
        summary: 'Delete an agent',
        description:
          'Its routes return 404 from then on. Running turns and pending approvals end soon after; the records of its sessions are kept.',
        response: answered(204, Type.Null()),
      },
    },
    async (request, reply) => {
      const { id } = agentOf(request);
      if (!(await change(context, request, (transaction, actor) => deleteAgent(transaction, actor, id)))) throw notFound();
      // Its approvals can no longer be answered: their turns would wait forever, and so would the messages queued behind them. Withdrawing
      // tens of thousands of them takes minutes, and goes on after the answer.
      const stopping = context.turns
        .stopAbandoned(id)
        .catch((error: unknown) => context.logger.warn({ err: error }, 'could not stop the sessions of a deleted agent; will retry'));
      await Promise.race([stopping, sleep(withdrawingMs, undefined, { ref: false })]);
      return reply.code(204).send();
    },
  );
}

function showAgent(agent: Agent, organization: Organization) {
  return {
    id: agent.id,
    slug: agent.slug,
    name: agent.name,
    description: agent.description,
    default: organization.defaultAgentId === agent.id,
    active_version: agent.activeVersion ?? null,
    active_state: agent.activeState ?? null,
    created_at: timestamp(agent.createdAt),
    updated_at: timestamp(agent.updatedAt),
  };
}
