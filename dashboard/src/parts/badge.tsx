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

/** How a state looks, unless it is plain. */
const states: Record<string, { tone: Tone; pulses?: boolean }> = {
  running: { tone: 'accent', pulses: true },
  waiting: { tone: 'warn' },
  materializing: { tone: 'accent', pulses: true },
  pending: { tone: 'accent', pulses: true },
  active: { tone: 'accent' },
  enabled: { tone: 'accent' },
  succeeded: { tone: 'accent' },
  failed: { tone: 'bad' },
  failing: { tone: 'bad' },
  disabled: { tone: 'bad' },
  refused: { tone: 'bad' },
};

/** A state in one word. Its dot pulses if the state will end by itself. */
export function State({ name, label = name }: { name: string; label?: string }) {
  const { tone, pulses = false } = states[name] ?? { tone: 'plain' };
  return (
    <Badge tone={tone}>
      <span className={`painted size-1.5 rounded-full bg-current ${pulses ? 'pulse-soft' : ''}`} aria-hidden />
      {label}
    </Badge>
  );
}
