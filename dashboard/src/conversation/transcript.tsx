import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useLayoutEffect, useMemo, useRef } from 'react';
import { Markdown } from '../parts/markdown.tsx';
import type { Conversation } from './fold.ts';
import { ItemView, UserMessage } from './item-view.tsx';

interface TranscriptProps {
  conversation: Conversation;
  preview: string;
  thinking: boolean;
  /** Messages that are not in the log yet. */
  outgoing?: readonly OutgoingMessage[];
  /** Shown after the last item, such as an approval. */
  children?: ReactNode;
}

interface OutgoingMessage {
  id: number;
  text: string;
  files: readonly File[];
  isAccepted: boolean;
}

const none: readonly OutgoingMessage[] = [];

/** The conversation as text. Only what is in view is in the page, so that a long one opens as fast as a short one. */
export function Transcript({ conversation, preview, thinking, outgoing = none, children }: TranscriptProps) {
  const { items, running, pending } = conversation;
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
  // Rows above the view may grow without moving what is read. Not while the end is followed: the correction would lead beyond the end,
  // and the virtualizer makes up for what is cut off of it as soon as the list grows, such as when something is opened.
  rows.shouldAdjustScrollPositionOnItemSizeChange = ({ end }, _delta, { scrollOffset }) => !atEnd.current && end <= (scrollOffset ?? 0);
  const height = rows.getTotalSize();

  // Whoever sends a message wants to see it, and the answer, also from further up.
  const lastSent = outgoing.at(-1)?.id;
  useLayoutEffect(() => {
    if (lastSent !== undefined) atEnd.current = true;
  }, [lastSent]);
  // Keeps the end in view, unless the reader has scrolled up. After every rendering, since not only a new item moves the end:
  // so do a row that turns out taller than estimated, and the card below.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (atEnd.current) element.scrollTop = element.scrollHeight;
    // Closing an entry leads back to the end without a scroll event.
    else atEnd.current = distanceFromEnd(element) <= 1;
  });

  return (
    <div
      ref={scroller}
      className="min-h-0 flex-1 overflow-y-auto px-4 py-4 sm:px-6"
      tabIndex={0}
      role="log"
      aria-label="Conversation"
      aria-busy={running}
      onScroll={({ currentTarget }) => {
        atEnd.current = distanceFromEnd(currentTarget) < 60;
      }}
      // Also for the keyboard, which clicks a summary with Enter or Space.
      onClickCapture={({ target }) => {
        // What is opened stays where it was clicked, and its content is read from there: the end is not followed for now.
        if (target instanceof Element && target.closest('summary') !== null) atEnd.current = false;
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
      <div className="mx-auto flex max-w-3xl flex-col gap-3.5">
        {preview !== '' && <Markdown text={preview} />}
        {running && preview === '' && (
          <p className="pulse-soft text-dim" role="status">
            Working…
          </p>
        )}
        {children}
        {outgoing.map(({ id, text, files, isAccepted }) => (
          <div key={id}>
            <UserMessage text={text} files={files.map(({ name }) => name)} />
            <p className="waiting mt-1 text-right text-[0.88em] text-dim" role="status">
              {!isAccepted ? 'Sending…' : running || pending !== undefined ? 'Waiting for the current turn to end…' : 'Sent'}
            </p>
          </div>
        ))}
      </div>
    </div>
  );
}

function distanceFromEnd({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}
