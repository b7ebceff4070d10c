import { focusWasMoved } from './late-enter.ts';
import { nearestControl } from './nearest-control.ts';

/** What has the focus, or had it when it was removed. Only if it was shown: who points or taps does not look for it. */
let focused: HTMLElement | undefined;

/**
 * When what has the focus is removed, such as the button of a row that was deleted, browsers leave it nowhere, and a screen reader goes
 * on at the top of the page. Moves it to what is nearest in the same place.
 */
export function keepFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    focused = target instanceof HTMLElement && target.matches(':focus-visible') ? target : undefined;
  });
  document.addEventListener('focusout', ({ target }) => {
    // Somebody has left it, as with Escape in the message field, unless it is being removed just now.
    queueMicrotask(() => {
      if (document.activeElement === document.body && target === focused && focused?.isConnected) focused = undefined;
    });
  });
  new MutationObserver((changes) => {
    const removed = focused;
    if (removed === undefined || removed.isConnected || document.activeElement !== document.body) return;
    const change = changes.find(
      ({ target, removedNodes }) => target.isConnected && [...removedNodes].some((node) => node.contains(removed)),
    );
    focused = undefined;
    if (!(change?.target instanceof HTMLElement)) return;
    // A dialog has no place on the page: what is beside it there has nothing to do with it.
    const wasInDialog = removed.closest('dialog') !== null;
    const next = wasInDialog ? document.getElementById('content') : nearestControl(change.target, change.previousSibling);
    next?.focus({ preventScroll: true });
    focusWasMoved();
  }).observe(document.body, { childList: true, subtree: true });
}

/**
 * A select of the same name as the one that had the focus, on the page that choosing from it has led to. For layout effects only: they
 * run before the observer above, which forgets what was removed.
 */
export function sameSelect(page: HTMLElement): HTMLElement | undefined {
  if (!(focused instanceof HTMLSelectElement) || focused.isConnected) return undefined;
  const name = focused.ariaLabel;
  return [...page.querySelectorAll('select')].find(({ ariaLabel }) => ariaLabel === name);
}
