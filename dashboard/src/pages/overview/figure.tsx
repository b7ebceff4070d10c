import type { ReactNode } from 'react';

const tones = { plain: '', bad: 'text-bad', warn: 'text-warn' };

/** One number that matters, what it is, and what to hold it against. */
export function Figure({
  label,
  value,
  note,
  tone = 'plain',
  share,
}: {
  label: string;
  value: string;
  note: ReactNode;
  tone?: keyof typeof tones;
  share?: number | undefined;
}) {
  return (
    <div className="bg-panel px-4 py-3 last:max-lg:col-span-2">
      <p className="text-dim">{label}</p>
      <p className={`text-[1.65rem] leading-tight font-semibold tracking-tight ${tones[tone]}`}>{value}</p>
      <div className="mt-0.5 text-[0.92em] text-faint">{note}</div>
      {share !== undefined && (
        <div className="mt-1.5 h-1 overflow-hidden rounded-full bg-hover">
          <div
            className={`painted h-full ${share >= 100 ? 'bg-bad' : share >= 80 ? 'bg-warn' : 'bg-accent'}`}
            style={{ width: `${Math.min(100, share)}%` }}
          />
        </div>
      )}
    </div>
  );
}
