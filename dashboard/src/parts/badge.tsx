import type { ReactNode } from 'react';

export type Tone = 'plain' | 'accent' | 'bad' | 'warn';

const tones: Record<Tone, string> = {
  plain: 'bg-sunken text-dim',
  accent: 'bg-tint text-accent',
  bad: 'bg-bad-tint text-bad',
  warn: 'bg-warn-tint text-warn',
};

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span className={`inline-flex items-center gap-1.5 rounded-sm px-1.5 py-px text-[0.88em] font-medium whitespace-nowrap ${tones[tone]}`}>
      {children}
    </span>
  );
}

const states: Record<string, { tone: Tone; moving?: boolean }> = {
  running: { tone: 'accent', moving: true },
  waiting: { tone: 'warn' },
  materialized: { tone: 'plain' },
  materializing: { tone: 'accent', moving: true },
  pending: { tone: 'accent', moving: true },
  active: { tone: 'accent' },
  enabled: { tone: 'accent' },
  succeeded: { tone: 'accent' },
  failed: { tone: 'bad' },
  failing: { tone: 'bad' },
  disabled: { tone: 'bad' },
  stopped: { tone: 'plain' },
};

/** A state in one word, with a dot that moves while the state will pass by itself. */
export function State({ name, label = name }: { name: string; label?: string }) {
  const { tone, moving = false } = states[name] ?? { tone: 'plain' };
  return (
    <Badge tone={tone}>
      <span className={`painted size-1.5 rounded-full bg-current ${moving ? 'pulse-soft' : ''}`} aria-hidden />
      {label}
    </Badge>
  );
}
