import { useAgents, useSignedIn } from '../server/queries.ts';
import { LinkButton } from './button.tsx';
import { Empty, Failure } from './page.tsx';

/** Where conversations would be: how to have one, with an agent that this organization has. */
export function FirstMessage({ title, text = '' }: { title: string; text?: string }) {
  const { organization } = useSignedIn();
  const { data, error } = useAgents();
  if (data === undefined) return error === null ? null : <Failure error={error} />;
  const able = data.filter(({ active_version: version }) => version !== null);
  const agent = able.find((each) => each.default) ?? able[0];
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
