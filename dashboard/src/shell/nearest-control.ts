const controls = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';

/** Where to go on, on the page or in its dialog, when something was removed from `parent` after the node `before`. */
export function nearestControl(parent: HTMLElement, before: Node | null): HTMLElement | null {
  const page = document.getElementById('content');
  const root = parent.closest<HTMLElement>('dialog') ?? page;
  if (!root?.contains(parent)) return page;
  return fieldOfForm(parent) ?? scrolledList(parent) ?? controlBeside(parent, before, root) ?? page;
}

/** Rather than a button of the form, which may send it. */
function fieldOfForm(parent: HTMLElement): HTMLElement | undefined {
  const form = parent.closest('form');
  return form === null ? undefined : usable(form, 'textarea, input')[0];
}

/** A list that shows only what is in view removes rows as it scrolls, and soon the next one as well. */
function scrolledList(parent: HTMLElement): HTMLElement | null {
  return parent.closest<HTMLElement>('[tabindex="0"]');
}

/** The next control in the same part of the page, or the last one before; else the same in what is around that part. */
function controlBeside(parent: HTMLElement, before: Node | null, root: HTMLElement): HTMLElement | undefined {
  let place = before?.isConnected ? before : null;
  for (let scope = parent; ; scope = scope.parentElement ?? root) {
    const found = usable(scope, controls);
    const control = found.find((each) => place === null || isBehind(each, place)) ?? found.at(-1);
    if (control !== undefined || scope === root) return control;
    place = scope;
  }
}

function usable(scope: HTMLElement, selector: string): HTMLElement[] {
  return [...scope.querySelectorAll<HTMLElement>(selector)].filter((each) => !each.matches(':disabled') && each.checkVisibility());
}

function isBehind(element: Element, place: Node): boolean {
  return !place.contains(element) && (place.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) > 0;
}
