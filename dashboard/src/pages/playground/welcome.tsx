import { LinkButton } from '../../parts/button.tsx';
import { Empty } from '../../parts/page.tsx';
import type { Agent } from '../../server/types.ts';

const examples = [
  'What can you do?',
  '/think Let me see.\n/say **Hello** from the offline model.',
  '/tool bash {"command":"echo hello > note.txt; ls"}',
];

/** Before the first message: what to say, or why nothing can be said yet. */
export function Welcome({ agent, canAnswer, onPick }: { agent: Agent; canAnswer: boolean; onPick(text: string): void }) {
  if (!canAnswer)
    return (
      <div className="mx-auto w-full max-w-3xl min-h-0 flex-1 overflow-y-auto px-4 pt-6">
        <Empty title={`${agent.name} has no active release.`} text="It cannot answer until a release is created and activated.">
          <LinkButton to={`/agents/${agent.slug}?tab=edit`} kind="primary">
            Create a release
          </LinkButton>
        </Empty>
      </div>
    );
  return (
    <div className="mx-auto w-full max-w-3xl min-h-0 flex-1 overflow-y-auto px-4 pt-6">
      <Empty
        title={`Talk to ${agent.name}.`}
        text="Every message, tool call and approval appears in the event rail as it happens. The offline model understands directives:"
      >
        <ul className="flex flex-col items-start gap-1.5">
          {examples.map((example) => (
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
      </Empty>
    </div>
  );
}
