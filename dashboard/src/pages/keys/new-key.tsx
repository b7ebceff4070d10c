import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field, Toggle } from '../../parts/field.tsx';
import { showOnce } from '../../parts/shown-once.tsx';
import { useWhileShown } from '../../parts/while-shown.ts';
import { postOnce } from '../../server/post-once.ts';
import { refresh, useSignedIn } from '../../server/queries.ts';
import type { ApiKey } from '../../server/types.ts';

/** Creates a key with some of the person's own scopes, then shows its secret, which cannot be read again. */
export function NewKey({ onClose }: { onClose(): void }) {
  const { scopes: ownScopes } = useSignedIn();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(
    ['sessions:read', 'session_tokens:mint'].filter((scope) => ownScopes.includes(scope)),
  );
  const close = useWhileShown(onClose);
  const create = useMutation({
    mutationFn: () => postOnce<{ api_key: ApiKey; secret: string }>('/api/api_keys', { name, scopes }),
    onSuccess: async ({ api_key: key, secret }) => {
      close();
      showOnce({
        title: 'Save this key now',
        text: `${key.name} is shown only once. Parley stores only a hash of it.`,
        value: secret,
        copyLabel: 'Copy key',
        done: 'I have saved it',
      });
      await refresh('/api/api_keys');
    },
  });
  const hasAll = scopes.length === ownScopes.length;
  return (
    <Dialog title="New API key" onClose={onClose} wide>
      <DialogForm action="Create key" work={create} onSubmit={() => create.mutate()} onClose={onClose}>
        <Field label="Name" hint="What uses it: “Backend”, “CI”.">
          {(props) => (
            <input {...props} className="input" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
          )}
        </Field>
        <fieldset>
          <legend className="mb-1 flex w-full items-center font-medium">
            Scopes
            <button
              type="button"
              className="ml-auto font-normal text-accent hover:underline"
              onClick={() => setScopes(hasAll ? [] : ownScopes)}
            >
              {hasAll ? 'None' : 'All'}
            </button>
          </legend>
          <p className="mb-2 text-dim">Conversations need no scope. Everything else must be enabled here.</p>
          <div className="gap-x-4 sm:columns-2 md:columns-3 [&>label]:mb-1 [&>label]:flex">
            {ownScopes.map((scope) => (
              <Toggle
                key={scope}
                label={scope}
                checked={scopes.includes(scope)}
                onChange={(next) => setScopes(next ? [...scopes, scope] : scopes.filter((other) => other !== scope))}
              />
            ))}
          </div>
        </fieldset>
      </DialogForm>
    </Dialog>
  );
}
