import { Json } from '../../parts/json.tsx';
import { Section } from '../../parts/page.tsx';
import type { Release } from '../../server/types.ts';
import { instructionsOf, withoutRepetition } from './release-facts.ts';

/** A release as those see it who may not make one: what the model is told, and with which tools. */
export function ReleaseView({ release }: { release: Release }) {
  const instructions = instructionsOf(withoutRepetition(release.config));
  return (
    <div className="grid gap-x-6 lg:grid-cols-2">
      <div>
        {instructions !== undefined && (
          <Section title="Instructions">
            <p dir="auto" className="panel max-h-96 overflow-y-auto p-3 [overflow-wrap:anywhere] whitespace-pre-wrap">
              {instructions === '' ? 'None.' : instructions}
            </p>
          </Section>
        )}
        <PinnedTools release={release} />
      </div>
      <Section title={`Release ${release.version}`}>
        <div className="panel p-3">
          <Json value={withoutRepetition(release.config)} />
        </div>
      </Section>
    </div>
  );
}

/** The tools of its MCP servers, as the model is told of them. */
export function PinnedTools({ release }: { release: Release }) {
  if (release.pinned_tools.length === 0) return null;
  return (
    <Section title="Tools of its MCP servers" hint={`as pinned by release ${release.version}`}>
      <ul className="panel divide-y divide-line">
        {release.pinned_tools.map(({ server, name, description, read_only: isReadOnly }) => (
          <li key={`${server} ${name}`} className="px-3 py-2 [overflow-wrap:anywhere]">
            <span className="font-mono text-[0.92em]">
              {server}: {name}
            </span>
            {isReadOnly && <span className="text-dim"> read-only</span>}
            {description !== '' && <p className="text-dim">{description}</p>}
          </li>
        ))}
      </ul>
    </Section>
  );
}
