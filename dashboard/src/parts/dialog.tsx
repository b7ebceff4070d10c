import { X } from 'lucide-react';
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react';
import { Button, type ButtonKind, IconButton } from './button.tsx';
import { Notices } from './notice.tsx';
import { addDialog, removeDialog, topDialog } from './open-dialogs.ts';

interface DialogProps {
  title: string;
  onClose(): void;
  children: ReactNode;
  wide?: boolean;
  /** Neither Escape nor the browser's Back button closes it. */
  stays?: boolean;
}

/** A modal dialog of the browser, which keeps the focus inside, closes on Escape and on Back, and gives the focus back. */
export function Dialog({ title, onClose, children, wide = false, stays = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useLayoutEffect(() => {
    const element = dialog.current;
    if (element === null) return;
    element.showModal();
    // By default the browser focuses the close button, which comes first.
    element.querySelector<HTMLElement>('form input, form textarea, form select, [data-first]')?.focus();
    addDialog(heading);
    // Without this, Back would leave the page, and lose what was typed here. Browsers without this API still do.
    const closeOnBack = (event: NavigateEvent) => {
      if (event.navigationType !== 'traverse' || !event.cancelable || topDialog() !== heading) return;
      event.preventDefault();
      if (!stays) element.close();
    };
    window.navigation?.addEventListener('navigate', closeOnBack);
    return () => {
      window.navigation?.removeEventListener('navigate', closeOnBack);
      removeDialog(heading);
      // Removing an open dialog from the page would not give the focus back.
      element.close();
    };
  }, [stays, heading]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={heading}
      // In development React runs the effect twice, so that a `close` event can arrive when the dialog is open again.
      onClose={() => !dialog.current?.open && onClose()}
      onKeyDown={(event) => stays && event.key === 'Escape' && event.preventDefault()}
      className={`m-auto w-[calc(100%-2rem)] rounded-lg border border-line bg-panel text-ink shadow-float ${wide ? 'max-w-3xl' : 'max-w-lg'}`}
    >
      <div className="flex items-center border-b border-line py-2 pr-2 pl-4">
        <h2 id={heading} className="min-w-0 text-[1.05rem] [overflow-wrap:anywhere]">
          {title}
        </h2>
        <IconButton label="Close" className="ml-auto" onClick={() => dialog.current?.close()}>
          <X size={16} />
        </IconButton>
      </div>
      <div className="p-4">{children}</div>
      <Notices dialog={heading} />
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: ReactNode;
  action: string;
  kind?: ButtonKind;
  busy?: boolean;
  onConfirm(): void;
  onClose(): void;
}

export function Confirm({ title, text, action, kind = 'danger', busy = false, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="[overflow-wrap:anywhere] text-dim">{text}</div>
      <div className="mt-5 flex justify-end gap-2">
        {/* Where it is dangerous, Cancel gets the focus: the key that opened the dialog may still be held down. */}
        <Button data-first={kind === 'danger' || undefined} onClick={onClose}>
          Cancel
        </Button>
        <Button data-first kind={kind} disabled={busy} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
