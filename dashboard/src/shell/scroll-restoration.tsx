import { useEffect, useLayoutEffect, useRef } from 'react';
import { sameSelect } from './keep-focus.ts';

/** The last scroll position of each URL. */
const positions = new Map<string, number>();

let isHistoryMove = false;
// Registered when this module is loaded, so before the router's own listener, which renders the page at once.
window.addEventListener('popstate', () => {
  isHistoryMove = true;
  setTimeout(() => {
    isHistoryMove = false;
  });
});

/**
 * When the location changes, scrolls to the top and moves the focus to the content, where a screen reader goes on, unless it is on
 * a control that is still there: who goes through tabs or choices goes on from there. After the back or forward button, scrolls to where
 * the page was left.
 */
export function ScrollRestoration({ location, search }: { location: string; search: string }) {
  const shown = useRef(location);
  useEffect(() => {
    const content = document.getElementById('content');
    content?.addEventListener('scroll', notePosition);
    return () => content?.removeEventListener('scroll', notePosition);
  }, []);
  // Also for what changes in the query, such as an entry that is opened: the page has another URL then, and has not scrolled.
  useLayoutEffect(() => {
    if (search !== '' && shown.current === location) notePosition();
  }, [location, search]);
  useLayoutEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    const content = document.getElementById('content');
    if (content === null) return;
    content.scrollTo(0, isHistoryMove ? (positions.get(window.location.href) ?? 0) : 0);
    if (content.contains(document.activeElement)) return;
    const chosen = isHistoryMove ? undefined : sameSelect(content);
    (chosen ?? content).focus({ preventScroll: true });
  }, [location]);
  return null;
}

function notePosition(): void {
  positions.set(window.location.href, document.getElementById('content')?.scrollTop ?? 0);
}
