import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { State } from '../../parts/badge.tsx';
import { plural } from '../../parts/format.ts';
import { Section, Unread } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { useAgents, useRead } from '../../server/queries.ts';
import type { Overview, WebhookList } from '../../server/types.ts';
import { refusalOf } from '../usage/refusals.ts';
import { endpointState } from '../webhooks/webhooks.tsx';

/** Lists of what a person should look at, with links. A list without entries is not shown. */
export function Problems({ turns: { failures }, budget }: Overview) {
  const readAgents = useAgents({ refetchInterval: 15_000 });
  const readEndpoints = useRead<WebhookList>('/api/webhook_endpoints', { refetchInterval: 15_000 });
  const agents = readAgents.data ?? [];
  const endpoints = readEndpoints.data?.webhook_endpoints.filter((endpoint) => endpointState(endpoint) !== 'enabled') ?? [];
  return (
    <>
      {/* Without it, what could not be read would look as if nothing were wrong. */}
      <Unread what="The agents" query={readAgents} />
      <Unread what="The webhook endpoints" query={readEndpoints} />
      <ProblemList title="Turns are refused">
        {budget.reason === null ? [] : [<Problem key="budget" state="refused" to="/usage" title={refusalOf(budget.reason)} />]}
      </ProblemList>
      <ProblemList title="Agents that cannot answer">
        {agents.flatMap(({ slug, name, active_version: version, active_state: state }) =>
          state === null || state === 'materialized'
            ? []
            : [<Problem key={slug} state={state} to={`/agents/${slug}`} title={name} aside={`Release ${version}`} />],
        )}
      </ProblemList>
      <ProblemList
        title="Latest failed turns"
        actions={
          <Link to="/sessions?state=failed" className="text-accent hover:underline">
            Sessions whose last turn failed
          </Link>
        }
      >
        {failures.map(({ session_id: id, seq, agent, code, message, at }) => (
          <Problem
            key={`${id} ${seq}`}
            state="failed"
            to={`/sessions/${id}?view=log&seq=${seq}`}
            title={`${agent}: ${code}`}
            aside={<Time at={at} />}
            text={message ?? undefined}
          />
        ))}
      </ProblemList>
      <ProblemList title="Webhook endpoints with problems">
        {endpoints.map((endpoint) => (
          <Problem
            key={endpoint.id}
            state={endpointState(endpoint)}
            to={`/webhooks/${endpoint.id}`}
            title={endpoint.name}
            aside={
              <>
                {plural(endpoint.consecutive_failures, 'failure')}
                <span className="max-sm:hidden"> in a row</span>
              </>
            }
            text={endpoint.url}
          />
        ))}
      </ProblemList>
    </>
  );
}

function ProblemList({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode[] }) {
  if (children.length === 0) return null;
  return (
    <Section title={title} actions={actions}>
      <ul className="panel divide-y divide-line">{children}</ul>
    </Section>
  );
}

interface ProblemProps {
  state: string;
  to: string;
  title: string;
  aside?: ReactNode;
  text?: string | undefined;
}

function Problem({ state, to, title, aside, text }: ProblemProps) {
  return (
    <li className="px-3 py-2">
      <span className="flex items-center gap-3">
        <State name={state} />
        <Link to={to} title={title} className="min-w-0 flex-1 truncate font-medium hover:text-accent">
          {title}
        </Link>
        <span className="shrink-0 text-dim">{aside}</span>
      </span>
      {text !== undefined && (
        <span className="mt-0.5 block truncate text-dim" title={text}>
          {text}
        </span>
      )}
    </li>
  );
}
