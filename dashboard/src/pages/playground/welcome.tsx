import type { ComponentProps } from 'react';
import { LinkButton } from '../../parts/button.tsx';
import { Empty } from '../../parts/page.tsx';
import type { Agent, Release } from '../../server/types.ts';
import { modelOf } from '../agents/release-facts.ts';

const directives = ['/think Let me see.\n/say **Hello** from the offline model.', '/tool bash {"command":"echo hello > note.txt; ls"}'];

interface WelcomeProps {
  agent: Agent;
  canAnswer: boolean;
  /** The release that would answer; undefined until it is known. */
  release: Release | undefined;
  onPick(text: string): void;
}

/** Shown before the first message: what to write, or why the agent cannot answer yet. */
export function Welcome({ agent, canAnswer, release, onPick }: WelcomeProps) {
  if (!canAnswer)
    return (
      <Hint title={`${agent.name} has no active release.`} text="It cannot answer until a release is created and activated.">
        <LinkButton to={`/agents/${agent.slug}?tab=edit`} kind="primary">
          Create a release
        </LinkButton>
      </Hint>
    );
  if (release?.state === 'failed')
    return (
      <Hint title={`Release ${release.version} failed, so ${agent.name} cannot answer.`} text={release.error}>
        <LinkButton to={`/agents/${agent.slug}`}>All releases</LinkButton>
      </Hint>
    );
  const isOffline = release !== undefined && modelOf(release.config).startsWith('offline');
  return (
    <Hint
      title={`Talk to ${agent.name}.`}
      text={`Every message, tool call and approval appears in the event rail as it happens.${isOffline ? ' The offline model understands directives:' : ''}`}
    >
      <ul className="flex flex-col items-start gap-1.5">
        {['What can you do?', ...(isOffline ? directives : [])].map((example) => (
          <li key={example} className="max-w-full">
            <button
              type="button"
              onClick={() => onPick(example)}
              className="max-w-full rounded-md border border-line px-2.5 py-1.5 text-left font-mono text-[0.92em] break-words whitespace-pre-wrap hover:border-accent"
            >
              {example}
            </button>
          </li>
        ))}
      </ul>
    </Hint>
  );
}

function Hint(props: ComponentProps<typeof Empty>) {
  return (
    <div className="min-h-0 flex-1 overflow-y-auto px-4 pt-6 sm:px-6">
      <div className="mx-auto max-w-3xl">
        <Empty {...props} />
      </div>
    </div>
  );
}
