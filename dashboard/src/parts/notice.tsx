import { useEffect, useRef } from 'react';
import { RequestError } from '../server/request.ts';
import { useTopDialog } from './open-dialogs.ts';
import { sharedValue } from './shared-value.ts';

interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

const notices = sharedValue<readonly Notice[]>([]);
let counter = 0;

/** Shows a message in the corner for a few seconds: what was done or, with `bad`, why it was refused. */
export function notify(text: string, bad = false): void {
  counter += 1;
  const id = counter;
  notices.write([...notices.read(), { id, text, bad }].slice(-3));
  setTimeout(() => notices.write(notices.read().filter((notice) => notice.id !== id)), bad ? 8_000 : 3_500);
}

export function notifyError(error: Error): void {
  // The dialog of `SignInAgain` opens and says it.
  if (error instanceof RequestError && error.status === 401) return;
  notify(error.message, true);
}

const none: readonly Notice[] = [];

/** On the page, and in each dialog: while one is open the rest of the page is inert, and screen readers are not told of what changes in it. */
export function Notices({ dialog }: { dialog?: string }) {
  const isTop = useTopDialog() === dialog;
  const all = notices.useValue();
  const shown = isTop ? all : none;
  const container = useRef<HTMLDivElement>(null);
  // The last element to enter the browser's top layer is in front: entering it again puts the notices above an open dialog.
  useEffect(() => {
    container.current?.hidePopover();
    if (shown.length > 0) container.current?.showPopover();
  }, [shown]);
  return (
    <div role="status">
      <div
        ref={container}
        popover="manual"
        className="pointer-events-none fixed inset-auto right-4 bottom-4 max-w-[calc(100%-2rem)] flex-col items-end gap-2 overflow-visible bg-transparent open:flex"
      >
        {shown.map(({ id, text, bad }) => (
          <p
            key={id}
            className={`pointer-events-auto max-w-[min(28rem,100%)] rounded-md border px-3 py-2 [overflow-wrap:anywhere] shadow-float ${bad ? 'border-bad/40 bg-bad-tint text-bad' : 'border-line bg-panel text-ink'}`}
          >
            {text}
          </p>
        ))}
      </div>
    </div>
  );
}
