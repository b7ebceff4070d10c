import type { FormEvent, ReactNode } from 'react';
import { Button } from './button.tsx';
import { Failure } from './page.tsx';

interface DialogFormProps {
  /** Label of the button that submits the form. */
  action: string;
  /** Label of the button that closes it. */
  leave?: string;
  /** The mutation that submitting it starts. */
  work: { isPending: boolean; error: Error | null };
  onSubmit(form: FormData): void;
  onClose(): void;
  children: ReactNode;
}

/** The form of a dialog: the given fields, the error if it was refused, and the buttons. */
export function DialogForm({ action, leave = 'Cancel', work, onSubmit, onClose, children }: DialogFormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onSubmit(new FormData(event.currentTarget));
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      {children}
      {work.error !== null && <Failure error={work.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{leave}</Button>
        <Button type="submit" kind="primary" disabled={work.isPending}>
          {action}
        </Button>
      </div>
    </form>
  );
}
