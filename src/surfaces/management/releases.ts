import { completeReleaseConfig } from '../../accounts/complete-release-config.ts';
import { activateRelease, createRelease, listReleases, type Release } from '../../accounts/releases.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { isRecord } from '../../text/json.ts';
import { changeOnce } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { agentOf, pathNumber } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { decodeIntegerCursor, limitOf, listOf, pageOf, pageQuery } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { requireAgentOfPath } from './path.ts';
import { releaseBody, releaseObject } from './release-schemas.ts';

const tags = ['Releases'];
const config = { family: 'management' as const };

export function releaseRoutes(server: Server, context: Context): void {
  server.get(
    '/api/agents/:slug/releases',
    {
      config,
      onRequest: requireAgentOfPath(context, 'releases:read'),
      schema: { tags, summary: 'List releases', querystring: Type.Object(pageQuery), response: answered(200, listOf(releaseObject)) },
    },
    async (request) => {
      const agent = agentOf(request);
      const before = decodeIntegerCursor('releases', request.query.cursor);
      const limit = limitOf(request.query);
      const { releases, hasMore } = await listReleases(context.database.db, agent.orgId, agent.id, { limit, before });
      return pageOf(
        'releases',
        releases,
        hasMore,
        (release) => release.version,
        (release) => showRelease(release, agent.activeVersion),
      );
    },
  );

  server.get(
    '/api/agents/:slug/releases/:version',
    {
      config,
      onRequest: requireAgentOfPath(context, 'releases:read'),
      schema: { tags, summary: 'Fetch a release', response: answered(200, Type.Object({ release: releaseObject })) },
    },
    async (request) => {
      const agent = agentOf(request);
      const release = orNotFound(await context.directory.release(agent.orgId, agent.id, pathNumber(request, 'version')));
      return { release: showRelease(release, agent.activeVersion) };
    },
  );

  server.post(
    '/api/agents/:slug/releases',
    {
      config,
      onRequest: requireAgentOfPath(context, 'releases:write'),
      // `completeReleaseConfig` checks the body first, because its errors say more. The schema's error is thrown after it.
      attachValidation: true,
      schema: {
        tags,
        summary: 'Create a release',
        description:
          'Materializes it: validates the config, resolves its credentials, connects to its MCP servers and pins their tools. ' +
          'A release without MCP servers is done when this answers; any other goes on in the background.',
        body: releaseBody,
        response: answered(201, Type.Object({ release: releaseObject })),
      },
    },
    async (request, reply) => {
      const agent = agentOf(request);
      const { activate, input } = splitBody(request.body);
      const releaseConfig = completeReleaseConfig(input);
      if (request.validationError !== undefined) throw request.validationError;
      const outcome = await context.materializer.pinNow(agent.orgId, releaseConfig);
      const answer = await changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const release = orNotFound(await createRelease(transaction, actor, agent.id, releaseConfig, outcome));
        if (activate) await activateRelease(transaction, actor, agent.id, release.version, { retry: false });
        return { release: showRelease(release, activate ? release.version : agent.activeVersion) };
      });
      if (answer.release.state === 'pending') context.materializer.materializeLater(agent.orgId, agent.id, answer.release.version);
      return answer;
    },
  );

  server.post(
    '/api/agents/:slug/releases/:version/activate',
    {
      config,
      onRequest: requireAgentOfPath(context, 'releases:write'),
      schema: {
        tags,
        summary: 'Activate a release',
        description:
          'New sessions get this version from now on; existing ones stay on theirs. Also the way to roll back. ' +
          'While it is not materialized, turns and new sessions answer 409; a failed one is materialized again.',
        response: answered(200, Type.Object({ release: releaseObject })),
      },
    },
    async (request, reply) => {
      const agent = agentOf(request);
      const version = pathNumber(request, 'version');
      const answer = await changeOnce(context, request, reply, 200, async (transaction, actor) => {
        const release = orNotFound(await activateRelease(transaction, actor, agent.id, version, { retry: true }));
        return { release: showRelease(release, version) };
      });
      if (answer.release.state === 'pending') context.materializer.materializeLater(agent.orgId, agent.id, version);
      return answer;
    },
  );
}

/** The body has not been validated yet. */
function splitBody(body: unknown): { activate: boolean; input: unknown } {
  if (!isRecord(body)) return { activate: false, input: body };
  const { activate, ...input } = body;
  return { activate: activate === true, input };
}

function showRelease(release: Release, activeVersion: number | undefined) {
  return {
    version: release.version,
    state: release.state,
    active: release.version === activeVersion,
    error: release.error ?? null,
    created_at: timestamp(release.createdAt),
    config: release.config,
    pinned_tools: release.pinnedTools.map(({ server, name, description, read_only }) => ({ server, name, description, read_only })),
  };
}
