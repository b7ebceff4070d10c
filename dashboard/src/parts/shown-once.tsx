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

/** What the server tells a single time, to be taken along now. */
export function ShownOnce({ title, text, value, copyLabel, done, onClose }: ShownOnceProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p className="mb-3 text-dim">{text}</p>
      <CodeBlock text={value} label={copyLabel} />
      <div className="mt-4 flex justify-end">
        <Button kind="primary" onClick={onClose}>
          {done}
        </Button>
      </div>
    </Dialog>
  );
}
