/** A row lights up as a whole under the pointer: a click anywhere in it is one on what it leads to or opens. */
export function followRowClicks(): void {
  document.addEventListener('click', (event) => {
    const { target, ctrlKey, metaKey, shiftKey } = event;
    if (!(target instanceof Element) || ctrlKey || metaKey || shiftKey) return;
    // What can be pressed means itself, and who marks text to copy it opens nothing.
    if (target.closest('a, button, input, select, label') !== null || getSelection()?.type === 'Range') return;
    target.closest('.grid-table tbody tr')?.querySelector<HTMLElement>('a, button[aria-expanded]')?.click();
  });
}
