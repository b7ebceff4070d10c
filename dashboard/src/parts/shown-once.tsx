import { Button } from './button.tsx';
import { CodeBlock } from './copy.tsx';
import { Dialog } from './dialog.tsx';

interface ShownOnceProps {
  title: string;
  text: string;
  value: string;
  copyLabel: string;
  done: string;
  onClose(): void;
}

/**
 * Shows a secret that the server tells only once. So that it is not lost by accident, neither Escape nor Back closes the dialog,
 * and the focus is not on a button, where an Enter that is still held down would press it.
 */
export function ShownOnce({ title, text, value, copyLabel, done, onClose }: ShownOnceProps) {
  return (
    <Dialog title={title} onClose={onClose} wide stays>
      <p className="mb-3 text-dim">{text}</p>
      <div data-first tabIndex={-1} className="outline-none">
        <CodeBlock text={value} label={copyLabel} wrap />
      </div>
      <div className="mt-4 flex justify-end">
        <Button kind="primary" onClick={onClose}>
          {done}
        </Button>
      </div>
    </Dialog>
  );
}
