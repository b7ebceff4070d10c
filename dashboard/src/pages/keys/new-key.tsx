import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { CodeBlock } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Field, Toggle } from '../../parts/field.tsx';
import { Failure } from '../../parts/page.tsx';
import { forget, useSignedIn } from '../../server/queries.ts';
import { post } from '../../server/request.ts';
import type { ApiKey } from '../../server/types.ts';

/** Makes a key with some of one's own scopes, and shows its secret the one time that is possible. */
export function NewKey({ onClose }: { onClose(): void }) {
  const { scopes: own } = useSignedIn();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(['sessions:read', 'session_tokens:mint'].filter((scope) => own.includes(scope)));
  const create = useMutation({
    mutationFn: () => post<{ api_key: ApiKey; secret: string }>('/api/api_keys', { name, scopes }),
    onSuccess: () => forget('/api/api_keys'),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  if (create.data !== undefined)
    return (
      <Dialog title="Keep this key now" onClose={onClose}>
        <p className="mb-3 text-dim">It is shown once. Parley keeps only a hash of it.</p>
        <CodeBlock text={create.data.secret} label="Copy key" />
        <div className="mt-4 flex justify-end">
          <Button kind="primary" onClick={onClose}>
            I have kept it
          </Button>
        </div>
      </Dialog>
    );
  const all = scopes.length === own.length;
  return (
    <Dialog title="New API key" onClose={onClose} wide>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label="Name" hint="What uses it: “Backend”, “CI”.">
          {(props) => (
            <input {...props} className="input" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
          )}
        </Field>
        <fieldset>
          <legend className="mb-1 flex w-full items-center font-medium">
            Scopes
            <button type="button" className="ml-auto font-normal text-accent hover:underline" onClick={() => setScopes(all ? [] : own)}>
              {all ? 'None' : 'All'}
            </button>
          </legend>
          <p className="mb-2 text-dim">Holding conversations needs none. Everything else is off unless it is on here.</p>
          <div className="grid gap-x-4 gap-y-1 sm:grid-cols-2 md:grid-cols-3">
            {own.map((scope) => (
              <Toggle
                key={scope}
                label={scope}
                checked={scopes.includes(scope)}
                onChange={(next) => setScopes(next ? [...scopes, scope] : scopes.filter((other) => other !== scope))}
              />
            ))}
          </div>
        </fieldset>
        {create.error !== null && <Failure error={create.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={create.isPending}>
            Create key
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
