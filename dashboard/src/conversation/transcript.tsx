import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useLayoutEffect, useMemo, useRef } from 'react';
import { Markdown } from '../parts/markdown.tsx';
import type { Conversation } from './fold.ts';
import { ItemView } from './item-view.tsx';

interface TranscriptProps {
  conversation: Conversation;
  preview: string;
  thinking: boolean;
  /** Shown after the last item, such as an approval. */
  children?: ReactNode;
}

/** The conversation as text. Only what is in view is in the page, so that a long one opens as fast as a short one. */
export function Transcript({ conversation, preview, thinking, children }: TranscriptProps) {
  const { items, running } = conversation;
  const shown = useMemo(() => (thinking ? items : items.filter(({ kind }) => kind !== 'thinking')), [items, thinking]);
  const scroller = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 56,
    getItemKey: (index) => shown[index]?.seq ?? index,
    overscan: 8,
  });
  const height = rows.getTotalSize();

  // Keeps the end in view, unless the reader has scrolled up. After every rendering, since not only a new item moves the end:
  // so do a row that turns out taller than estimated, and the card below.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element !== null && atEnd.current) element.scrollTop = element.scrollHeight;
  });

  return (
    <div
      ref={scroller}
      className="min-h-0 flex-1 overflow-y-auto px-4 py-4 sm:px-6"
      tabIndex={0}
      role="log"
      aria-label="Conversation"
      aria-busy={running}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 60;
      }}
    >
      <div className="relative mx-auto max-w-3xl" style={{ height }}>
        {rows.getVirtualItems().map((row) => {
          const item = shown[row.index];
          if (item === undefined) return null;
          return (
            <div
              key={row.key}
              data-index={row.index}
              ref={rows.measureElement}
              className="absolute top-0 left-0 w-full pb-3.5"
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <ItemView item={item} />
            </div>
          );
        })}
      </div>
      <div className="mx-auto max-w-3xl">
        {preview !== '' && <Markdown text={preview} />}
        {running && preview === '' && (
          <p className="pulse-soft text-dim" role="status">
            Working…
          </p>
        )}
        {children}
      </div>
    </div>
  );
}
