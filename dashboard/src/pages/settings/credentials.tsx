import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Confirm, Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Section, Waiting } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { refresh, useAll, useMay } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Credential } from '../../server/types.ts';
import { providers } from '../../server/values.ts';
import { TryModel } from './try-model.tsx';

/** Keys for model providers and MCP servers. Of a stored key only the last four characters are ever shown. */
export function Credentials() {
  const mayWrite = useMay('model_credentials:write');
  const { data, error } = useAll<Credential>('/api/model_credentials', { enabled: mayWrite });
  const [storing, setStoring] = useState(false);
  const [trying, setTrying] = useState<string>();
  const [removing, setRemoving] = useState<string>();
  const remove = useMutation({
    mutationFn: (name: string) => request('DELETE', `/api/model_credentials/${name}`),
    onSuccess: async () => {
      setRemoving(undefined);
      notify('The key was deleted.');
      await refresh('/api/model_credentials');
    },
    onError: notifyError,
  });
  if (!mayWrite) return <Empty title="Credentials are for owners and admins." />;
  return (
    <Section
      title="Credentials"
      hint="Your own keys, encrypted. A release names the provider; an MCP server names its credential."
      actions={
        <Button kind="primary" onClick={() => setStoring(true)}>
          Store a key
        </Button>
      }
    >
      {error !== null && <Failure error={error} />}
      {data === undefined && error === null && <Waiting />}
      {data?.length === 0 && (
        <Empty
          title="No credentials yet."
          text="The offline model needs none. Store a provider key here or from a terminal:"
          command={curlCommand('PUT', '/api/model_credentials/anthropic', { api_key: '...' })}
        />
      )}
      {data !== undefined && data.length > 0 && (
        <div className="panel overflow-hidden">
          <table className="grid-table">
            <thead>
              <tr>
                <th>Name</th>
                <th>Ends in</th>
                <th className="number max-sm:hidden">Stored</th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.map(({ provider, last_four: lastFour, updated_at: updatedAt }) => (
                <tr key={provider}>
                  <td className="font-medium [overflow-wrap:anywhere]">{provider}</td>
                  <td className="font-mono whitespace-nowrap text-dim">{lastFour === '' ? '–' : `…${lastFour}`}</td>
                  <td className="number text-dim max-sm:hidden">
                    <Time at={updatedAt} />
                  </td>
                  <td>
                    <span className="-my-1 flex justify-end gap-2">
                      {providers.includes(provider) && (
                        <Button aria-label={`Test ${provider}`} onClick={() => setTrying(provider)}>
                          Test
                        </Button>
                      )}
                      <Button kind="danger" aria-label={`Delete ${provider}`} onClick={() => setRemoving(provider)}>
                        Delete
                      </Button>
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {storing && <StoreCredential onClose={() => setStoring(false)} />}
      {trying !== undefined && <TryModel provider={trying} onClose={() => setTrying(undefined)} />}
      {removing !== undefined && (
        <Confirm
          title={`Delete the key for ${removing}?`}
          text="Turns that need it will fail, unless the operator has set a key."
          action="Delete key"
          busy={remove.isPending}
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </Section>
  );
}

function StoreCredential({ onClose }: { onClose(): void }) {
  const store = useMutation({
    mutationFn: (form: FormData) =>
      request('PUT', `/api/model_credentials/${encodeURIComponent(textOf(form, 'name'))}`, {
        body: { api_key: textOf(form, 'key').trim() },
      }),
    onSuccess: async () => {
      notify('The key is stored.');
      await refresh('/api/model_credentials');
      onClose();
    },
  });
  return (
    <Dialog title="Store a key" onClose={onClose}>
      <DialogForm action="Store key" work={store} onSubmit={(form) => store.mutate(form)} onClose={onClose}>
        <Field label="Provider, or name of an MCP credential" hint="Replaces a key that is already stored.">
          {(props) => (
            <>
              <input
                {...props}
                name="name"
                className="input"
                list="providers"
                required
                pattern="[A-Za-z0-9][A-Za-z0-9_\-]{0,63}"
                autoComplete="off"
              />
              <datalist id="providers">
                {providers.map((name) => (
                  <option key={name} value={name} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <Field label="Key">
          {(props) => <input {...props} name="key" type="password" className="input font-mono" required autoComplete="off" />}
        </Field>
      </DialogForm>
    </Dialog>
  );
}
