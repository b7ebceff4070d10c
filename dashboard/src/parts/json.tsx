import { type ReactNode, useMemo } from 'react';

const token = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Indented JSON, with keys, strings and other values in different colors. */
export function Json({ value, className = '' }: { value: unknown; className?: string }) {
  const parts = useMemo(() => colour(JSON.stringify(value, null, 2) ?? 'undefined'), [value]);
  return (
    <pre className={`overflow-x-auto text-[0.88em] leading-relaxed [overflow-wrap:anywhere] whitespace-pre-wrap ${className}`}>{parts}</pre>
  );
}

function colour(text: string): ReactNode[] {
  // A span per value would make the page slow.
  if (text.length > 50_000) return [text];
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    parts.push(text.slice(end, match.index));
    const [whole, quoted, colon] = match;
    if (quoted !== undefined && colon !== undefined) {
      parts.push(
        <span key={match.index} className="text-dim">
          {quoted}
        </span>,
        colon,
      );
    } else {
      parts.push(
        <span key={match.index} className={quoted === undefined ? 'text-warn' : 'text-accent'}>
          {whole}
        </span>,
      );
    }
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}
