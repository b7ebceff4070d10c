/** Who presses Stop just when the turn ends by itself has not seen yet that the focus is elsewhere. */
const settlingMs = 500;
let settledAt = 0;
/** Nothing, if the press itself came too late. */
let pressedOn: EventTarget | null = null;

/**
 * Ignores an Enter that was meant for what had the focus before: one that is still held down, or that comes just after the focus was
 * moved. Otherwise it would send a half-written message, or resume the session that it has stopped.
 */
export function ignoreLateEnter(): void {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return;
    if (!event.repeat) pressedOn = performance.now() < settledAt ? null : event.target;
    if (event.target === pressedOn) return;
    event.preventDefault();
    event.stopPropagation();
  };
  document.addEventListener('keydown', onKeyDown, { capture: true });
  // Who writes knows where they are.
  document.addEventListener('input', () => {
    settledAt = 0;
  });
}

/** To be called when the focus was moved without a key that asks for it. */
export function focusWasMoved(): void {
  settledAt = performance.now() + settlingMs;
}
