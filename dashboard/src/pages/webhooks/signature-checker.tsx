import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { checkSignature, type Verdict } from './check-signature.ts';

/** Checks the signature of a delivery, and says what is wrong with it, for someone whose backend refuses it. */
export function SignatureChecker() {
  const [verdict, setVerdict] = useState<Verdict>();
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    void checkSignature(textOf(form, 'secret').trim(), textOf(form, 'header').trim(), textOf(form, 'body')).then(setVerdict);
  };
  return (
    <form onSubmit={submit} className="panel flex flex-col gap-3 p-4">
      <div className="grid gap-3 md:grid-cols-2">
        <Field label="Signing secret">
          {(props) => <input {...props} name="secret" className="input font-mono" placeholder="whsec_svc_…" autoComplete="off" required />}
        </Field>
        <Field label="Svc-Signature header">
          {(props) => <input {...props} name="header" className="input font-mono" placeholder="t=…,v1=…" autoComplete="off" required />}
        </Field>
      </div>
      <Field label="Raw body" hint="Exactly as it arrived, before any parsing.">
        {(props) => <textarea {...props} name="body" rows={4} className="input resize-y font-mono" required />}
      </Field>
      <div className="flex flex-wrap items-center gap-3">
        <Button type="submit">Check</Button>
        <p role="status" className={verdict?.valid ? 'text-accent' : 'text-bad'}>
          {verdict?.message}
        </p>
      </div>
    </form>
  );
}
