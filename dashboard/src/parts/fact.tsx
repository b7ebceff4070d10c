import type { ReactNode } from 'react';

/** A labelled value in a `dl` of two columns. */
export function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-dim">{label}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}
