import { Button } from './button.tsx';
import { CodeBlock } from './copy.tsx';
import { Dialog } from './dialog.tsx';
import { sharedValue } from './shared-value.ts';

interface Secret {
  title: string;
  text: string;
  value: string;
  copyLabel: string;
  done: string;
}

const secrets = sharedValue<readonly Secret[]>([]);

/**
 * Shows a secret that the server tells only once, wherever the person is by now: the dialog that asked for it may be closed, or
 * open again for the next one.
 */
export function showOnce(secret: Secret): void {
  secrets.write([...secrets.read(), secret]);
}

/** The secrets that were not put away yet, one after the other. */
export function SecretsShownOnce() {
  const [secret] = secrets.useValue();
  if (secret === undefined) return null;
  return <ShownOnce key={secret.value} secret={secret} onClose={() => secrets.write(secrets.read().filter((other) => other !== secret))} />;
}

/**
 * So that the secret is not lost by accident, neither Escape nor Back closes the dialog, and the focus is not on a button, where an
 * Enter that is still held down would press it.
 */
function ShownOnce({ secret, onClose }: { secret: Secret; onClose(): void }) {
  return (
    <Dialog title={secret.title} onClose={onClose} wide stays>
      <p className="mb-3 text-dim [overflow-wrap:anywhere]">{secret.text}</p>
      <div data-first tabIndex={-1} className="outline-none">
        <CodeBlock text={secret.value} label={secret.copyLabel} wrap />
      </div>
      <div className="mt-4 flex justify-end">
        <Button kind="primary" onClick={onClose}>
          {secret.done}
        </Button>
      </div>
    </Dialog>
  );
}
