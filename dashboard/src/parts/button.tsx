import type { ComponentProps, MouseEvent, ReactNode } from 'react';
import { Link } from 'wouter';

export type ButtonKind = 'plain' | 'primary' | 'danger' | 'quiet';

const kinds: Record<ButtonKind, string> = {
  plain: 'border-edge bg-panel hover:bg-hover',
  primary: 'border-accent bg-accent text-on-accent hover:bg-accent-strong hover:border-accent-strong',
  danger: 'border-edge bg-panel text-bad hover:bg-bad-tint hover:border-bad',
  quiet: 'border-transparent text-dim hover:bg-hover hover:text-ink',
};
const shape =
  'inline-flex min-h-[2.15rem] items-center justify-center gap-1.5 rounded-md border px-2.5 font-medium whitespace-nowrap aria-disabled:opacity-50 transition-colors';

export function Button({ kind = 'plain', className = '', ...props }: ComponentProps<'button'> & { kind?: ButtonKind }) {
  return <button type="button" {...withoutDisabled(props)} className={`${shape} ${kinds[kind]} ${className}`} />;
}

export function IconButton({ label, children, className = '', ...props }: ComponentProps<'button'> & { label: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      {...withoutDisabled(props)}
      className={`inline-flex size-[2.15rem] shrink-0 items-center justify-center rounded-md text-dim transition-colors hover:bg-hover hover:text-ink aria-disabled:opacity-50 ${className}`}
    >
      {children}
    </button>
  );
}

/**
 * Uses `aria-disabled` in place of `disabled`: a button is often disabled because it was just pressed, and the browser takes
 * the focus from a disabled one, so that a person with a keyboard or a screen reader loses their place.
 */
function withoutDisabled({ disabled, onClick, ...props }: ComponentProps<'button'>): ComponentProps<'button'> {
  if (!disabled) return { ...props, onClick };
  return { ...props, 'aria-disabled': true, onClick: (event: MouseEvent) => event.preventDefault() };
}

export function LinkButton({ to, kind = 'plain', children }: { to: string; kind?: ButtonKind; children: ReactNode }) {
  return (
    <Link to={to} className={`${shape} ${kinds[kind]}`}>
      {children}
    </Link>
  );
}
