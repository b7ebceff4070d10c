import type { ReactNode } from 'react';

const tones = { plain: '', bad: 'text-bad', warn: 'text-warn' };

/** A number in large type, with a label above it and a note below. `percent` is how much of a cap is used, shown as a bar. */
export function Figure({
  label,
  value,
  note,
  tone = 'plain',
  percent,
}: {
  label: string;
  value: string;
  note: ReactNode;
  tone?: keyof typeof tones;
  percent?: number | undefined;
}) {
  return (
    <div className="bg-panel px-4 py-3">
      <p className="text-dim">{label}</p>
      <p className={`text-[1.65rem] leading-tight font-semibold tracking-tight ${tones[tone]}`}>{value}</p>
      <div className="mt-0.5 text-[0.92em] text-faint">{note}</div>
      {percent !== undefined && (
        <div className="mt-1.5 h-1 overflow-hidden rounded-full bg-hover">
          <div
            className={`painted h-full ${percent >= 100 ? 'bg-bad' : percent >= 80 ? 'bg-warn' : 'bg-accent'}`}
            style={{ width: `${Math.min(100, percent)}%` }}
          />
        </div>
      )}
    </div>
  );
}
