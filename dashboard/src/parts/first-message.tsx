import { useAgents, useSignedIn } from '../server/queries.ts';
import { LinkButton } from './button.tsx';
import { Empty, Failure } from './page.tsx';

/** Shown where there are no conversations yet: how to start one, with an agent of this organization. */
export function FirstMessage({ title, text = '' }: { title: string; text?: string }) {
  const { organization } = useSignedIn();
  const { data, error } = useAgents();
  if (data === undefined) return error === null ? null : <Failure error={error} />;
  const answering = data.filter(({ active_version: version }) => version !== null);
  const agent = answering.find((each) => each.default) ?? answering[0];
  if (agent === undefined)
    return (
      <Empty title={title} text="No agent can answer yet: one with an active release comes first.">
        <LinkButton to="/agents" kind="primary">
          Go to the agents
        </LinkButton>
      </Empty>
    );
  return (
    <Empty
      title={title}
      text={`${text} Talk to an agent in the playground, or from a terminal:`.trim()}
      command={`curl -s ${window.location.origin}/${organization.slug}/${agent.slug}/v1/chat/completions -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '{"messages":[{"role":"user","content":"Hello!"}]}'`}
    >
      <LinkButton to="/playground" kind="primary">
        Open the playground
      </LinkButton>
    </Empty>
  );
}
