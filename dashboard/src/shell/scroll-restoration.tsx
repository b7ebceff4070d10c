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
export function ScrollRestoration({ location }: { location: string }) {
  const shown = useRef(location);
  useEffect(() => {
    const content = document.getElementById('content');
    const note = () => positions.set(window.location.href, content?.scrollTop ?? 0);
    content?.addEventListener('scroll', note);
    return () => content?.removeEventListener('scroll', note);
  }, []);
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
