/** Makes whole rows of tables clickable: a click anywhere in a row clicks its first link or expanding button. */
export function followRowClicks(): void {
  document.addEventListener('click', (event) => {
    const { target, ctrlKey, metaKey, shiftKey } = event;
    if (!(target instanceof Element) || ctrlKey || metaKey || shiftKey) return;
    // Controls in the row handle their own clicks, and selecting text is not a click.
    if (target.closest('a, button, input, select, label') !== null || getSelection()?.type === 'Range') return;
    target.closest('.grid-table tbody tr')?.querySelector<HTMLElement>('a, button[aria-expanded]')?.click();
  });
}
