import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { duration } from '../../parts/format.ts';
import { post } from '../../server/request.ts';

type Trial = { ok: true; milliseconds: number } | { ok: false; code: string; message: string; milliseconds: number };

/** Asks the provider for one word with the stored key. */
export function TryModel({ provider, onClose }: { provider: string; onClose(): void }) {
  const attempt = useMutation({
    mutationFn: (form: FormData) => {
      const baseUrl = textOf(form, 'base_url').trim();
      return post<Trial>('/dashboard/api/models/test', {
        provider,
        name: textOf(form, 'name').trim(),
        ...(baseUrl === '' ? {} : { base_url: baseUrl }),
      });
    },
  });
  const trial = attempt.data;
  return (
    <Dialog title={`Test the key for ${provider}`} onClose={onClose}>
      <DialogForm action="Test" leave="Close" work={attempt} onSubmit={(form) => attempt.mutate(form)} onClose={onClose}>
        <Field label="Model" hint="The name that the provider uses. The test asks for one word.">
          {(props) => <input {...props} name="name" className="input font-mono" required autoComplete="off" />}
        </Field>
        {provider === 'openai-compatible' && (
          <Field label="Base URL">
            {(props) => <input {...props} name="base_url" type="url" className="input font-mono" required placeholder="https://…/v1" />}
          </Field>
        )}
        <p role="status" className={trial?.ok === false ? 'text-bad' : 'text-accent'}>
          {attempt.isPending && 'Asking…'}
          {!attempt.isPending && trial?.ok === true && `It works: answered in ${duration(trial.milliseconds)}.`}
          {!attempt.isPending && trial?.ok === false && `${trial.code}: ${trial.message}`}
        </p>
      </DialogForm>
    </Dialog>
  );
}
