import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Field } from '../../parts/field.tsx';
import { duration } from '../../parts/format.ts';
import { Failure } from '../../parts/page.tsx';
import { post } from '../../server/request.ts';
import { textOf } from '../../sign-in/form.ts';

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
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    attempt.mutate(new FormData(event.currentTarget));
  };
  const trial = attempt.data;
  return (
    <Dialog title={`Test the key for ${provider}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label="Model" hint="As the provider names it. One word is asked for.">
          {(props) => <input {...props} name="name" className="input font-mono" required autoComplete="off" />}
        </Field>
        {provider === 'openai-compatible' && (
          <Field label="Base URL">
            {(props) => <input {...props} name="base_url" type="url" className="input font-mono" required placeholder="https://…/v1" />}
          </Field>
        )}
        {attempt.error !== null && <Failure error={attempt.error} />}
        <p role="status" className={trial?.ok === false ? 'text-bad' : 'text-accent'}>
          {attempt.isPending && 'Asking…'}
          {!attempt.isPending && trial?.ok === true && `It works: answered in ${duration(trial.milliseconds)}.`}
          {!attempt.isPending && trial?.ok === false && `${trial.code}: ${trial.message}`}
        </p>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" kind="primary" disabled={attempt.isPending}>
            Test
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
