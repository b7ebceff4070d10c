import { useEffect, useLayoutEffect, useRef } from 'react';

/** How far down each address was when it was last looked at. */
const places = new Map<string, number>();

let isBack = false;
// As soon as this file is loaded, and so before the router, which draws what it hears of at once.
window.addEventListener('popstate', () => {
  isBack = true;
  setTimeout(() => {
    isBack = false;
  });
});

/** A new page is read from its top, by the eye and by a screen reader; one that the back button leads to, from where it was left. */
export function ScrollPlace({ location }: { location: string }) {
  const shown = useRef(location);
  useEffect(() => {
    const content = document.getElementById('content');
    const note = () => places.set(window.location.href, content?.scrollTop ?? 0);
    content?.addEventListener('scroll', note);
    return () => content?.removeEventListener('scroll', note);
  }, []);
  useLayoutEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    const content = document.getElementById('content');
    content?.scrollTo(0, isBack ? (places.get(window.location.href) ?? 0) : 0);
    content?.focus({ preventScroll: true });
  }, [location]);
  return null;
}
