/** What has the focus, or had it when it was removed. Only if it was shown: who points or taps does not look for it. */
let focused: HTMLElement | undefined;

const controls = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';

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
    if (change?.target instanceof HTMLElement) nearest(change.target, change.previousSibling)?.focus({ preventScroll: true });
  }).observe(document.body, { childList: true, subtree: true });
}

/** A select of the same name as the one that had the focus, on the page that choosing from it has led to. */
export function sameSelect(page: HTMLElement): HTMLElement | undefined {
  if (!(focused instanceof HTMLSelectElement) || focused.isConnected) return undefined;
  const name = focused.ariaLabel;
  return [...page.querySelectorAll('select')].find(({ ariaLabel }) => ariaLabel === name);
}

/** The control nearest to what was removed from `parent` after the node `before`, on the page or in its dialog. */
function nearest(parent: HTMLElement, before: Node | null): HTMLElement | null {
  const page = document.getElementById('content');
  const root = parent.closest<HTMLElement>('dialog') ?? page;
  if (!root?.contains(parent)) return page;
  // Not the button that sends the form: a key that is still held down would press it.
  const field = parent.closest('form')?.querySelector<HTMLElement>('textarea, input:not([hidden])');
  // A list that shows only what is in view removes rows as it scrolls, and soon the next one as well.
  const list = parent.closest<HTMLElement>('[tabindex="0"]');
  if (field ?? list) return field ?? list;
  let place = before?.isConnected ? before : null;
  for (let scope = parent; ; scope = scope.parentElement ?? root) {
    const found = [...scope.querySelectorAll<HTMLElement>(controls)].filter((each) => !each.matches(':disabled') && each.checkVisibility());
    const control = found.find((each) => place === null || isBehind(each, place)) ?? found.at(-1);
    if (control !== undefined || scope === root) return control ?? page;
    place = scope;
  }
}

function isBehind(element: Element, place: Node): boolean {
  return !place.contains(element) && (place.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) > 0;
}
