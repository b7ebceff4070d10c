import { useEffect, useState } from 'react';
import { useLocation } from 'wouter';
import { Dialog } from '../parts/dialog.tsx';
import { destinations } from './destinations.ts';

/** Keyboard shortcuts of every page, and the dialog that lists them. */
export function Shortcuts() {
  const [, navigate] = useLocation();
  const [helping, setHelping] = useState(false);
  useEffect(() => {
    /** When g was pressed: for a moment, the next key chooses a page. */
    let pressedGAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (Date.now() - pressedGAt < 1_200) {
        pressedGAt = 0;
        const target = destinations.flat().find(({ key }) => key === event.key);
        if (target !== undefined) {
          event.preventDefault();
          navigate(target.path);
        }
      } else if (event.key === 'g') pressedGAt = Date.now();
      else if (event.key === '?') setHelping(true);
      else if (event.key === '/') {
        const field = document.querySelector<HTMLElement>('[data-search]');
        if (field === null) return;
        event.preventDefault();
        field.focus();
      }
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, [navigate]);
  if (!helping) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => setHelping(false)}>
      <dl className="grid grid-cols-[auto_1fr] items-center gap-x-4 gap-y-1.5">
        {destinations.flat().map(({ key, label }) => (
          <Shortcut key={key} keys={['g', key]} label={label} />
        ))}
        <Shortcut keys={['/']} label="Focus the search or message field" />
        <Shortcut keys={['1', '2', '3']} label="Approve once, approve for the session, deny" />
        <Shortcut keys={['?']} label="Show this list" />
      </dl>
    </Dialog>
  );
}

function Shortcut({ keys, label }: { keys: string[]; label: string }) {
  return (
    <>
      <dt className="flex gap-1">
        {keys.map((key) => (
          <Key key={key}>{key}</Key>
        ))}
      </dt>
      <dd className="text-dim">{label}</dd>
    </>
  );
}

export function Key({ children }: { children: string }) {
  return (
    <kbd className="pointer-coarse:hidden inline-flex min-w-5 justify-center rounded-sm border border-edge bg-sunken px-1 text-[0.85em] text-dim">
      {children}
    </kbd>
  );
}

/** Whether a key press is for a form field or an open dialog, and so no shortcut. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.matches('input:not([type=checkbox],[type=radio]), textarea, select') ||
      target.closest('dialog') !== null)
  );
}
