/** Who looks at another tab for a moment stays connected. */
const leaveMs = 5_000;

/**
 * Follows what `open` gives, anew each time that the tab comes into view again, after `onLeave`. Out of view it has no connection: over
 * HTTP/1.1 a browser opens six to a server, for all tabs together, and the chat of the next tab would wait for one without end.
 */
export async function* followInView<Event>(
  open: (signal: AbortSignal) => AsyncIterable<Event>,
  signal: AbortSignal,
  onLeave: () => void,
): AsyncGenerator<Event, void> {
  for (;;) {
    await untilInView(signal);
    const view = whileInView();
    try {
      yield* open(AbortSignal.any([signal, view.signal]));
      return;
    } catch (error) {
      if (signal.aborted || !view.signal.aborted) throw error;
      onLeave();
    } finally {
      view.end();
    }
  }
}

/** Resolves when this tab is in view, or the signal is aborted. */
export async function untilInView(signal: AbortSignal): Promise<void> {
  while (document.hidden && !signal.aborted)
    await new Promise((resolve) => {
      document.addEventListener('visibilitychange', resolve, { once: true });
      signal.addEventListener('abort', resolve, { once: true });
    });
}

/** The signal is aborted when this tab has been out of view for a while. The caller must call `end`. */
export function whileInView(): { signal: AbortSignal; end(): void } {
  const left = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const watch = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => left.abort(), leaveMs);
  };
  const end = () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', watch);
  };
  document.addEventListener('visibilitychange', watch);
  watch();
  return { signal: left.signal, end };
}
