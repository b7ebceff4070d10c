import { Select } from '../../parts/field.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import type { Release } from '../../server/types.ts';
import { condense, type DiffLine, diffLines } from './diff-lines.ts';
import { comparedText, configText } from './release-facts.ts';

const marks: Record<DiffLine['kind'], { sign: string; style: string; word: string }> = {
  same: { sign: ' ', style: 'text-dim', word: '' },
  added: { sign: '+', style: 'bg-tint text-accent', word: 'added' },
  removed: { sign: '-', style: 'bg-bad-tint text-bad', word: 'removed' },
};

/** Compares the releases that the address names; without them, the active one with the newest. */
export function ConfigDiff({ releases }: { releases: readonly Release[] }) {
  const query = useQueryState();
  const active = releases.find((release) => release.active) ?? releases[0];
  const newest = releases[0];
  const fallback = active === newest ? releases[1] : active;
  const left = releases.find((release) => String(release.version) === query.read('a')) ?? fallback;
  const right = releases.find((release) => String(release.version) === query.read('b')) ?? newest;
  if (left === undefined || right === undefined) return null;
  const options = releases.map(({ version, active: isActive }) => ({
    value: String(version),
    label: `Release ${version}${isActive ? ', active' : ''}`,
  }));
  return (
    <>
      <div className="mb-3 flex items-center gap-2">
        <Select label="From" value={String(left.version)} onChange={(a) => query.write({ a })} options={options} />
        <span className="text-dim">to</span>
        <Select label="To" value={String(right.version)} onChange={(b) => query.write({ b })} options={options} />
      </div>
      <DiffView lines={diffLines(comparedText(configText(left.config)), comparedText(configText(right.config)))} />
    </>
  );
}

export function DiffView({ lines }: { lines: readonly DiffLine[] }) {
  if (lines.every(({ kind }) => kind === 'same')) return <p className="text-dim">The two releases are identical.</p>;
  return (
    <section
      className="panel max-h-[40rem] overflow-auto py-1 font-mono text-[0.9em] leading-relaxed"
      tabIndex={0}
      aria-label="Differences"
    >
      {condense(lines).map((line, index) => {
        const key = `${index} ${line?.text ?? ''}`;
        if (line === null)
          return (
            <p key={key} className="px-3 text-faint select-none">
              ⋯
            </p>
          );
        const { sign, style, word } = marks[line.kind];
        return (
          <p key={key} className={`px-3 break-words whitespace-pre-wrap ${style}`}>
            <span className="mr-2 select-none" aria-hidden>
              {sign}
            </span>
            {word !== '' && <span className="sr-only">{word}: </span>}
            {line.text}
          </p>
        );
      })}
    </section>
  );
}
