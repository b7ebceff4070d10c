/**
 * Leaves for a path of the dashboard, which is loaded anew, because what the page shows is for this person no longer. The browser may keep
 * the page as it is, for its Back button: when it comes back, it is loaded anew too. Never resolves: until the browser has left the
 * page, nothing that waits for this draws it again.
 */
export function leaveForGood(path: string): Promise<never> {
  window.addEventListener('pageshow', ({ persisted }) => {
    if (!persisted) return;
    document.body.hidden = true;
    window.location.reload();
  });
  window.location.assign(path);
  return new Promise(() => {});
}
