import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field, Toggle } from '../../parts/field.tsx';
import { notify } from '../../parts/notice.tsx';
import { showOnce } from '../../parts/shown-once.tsx';
import { useWhileShown } from '../../parts/while-shown.ts';
import { postOnce } from '../../server/post-once.ts';
import { refresh } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { WebhookEndpoint } from '../../server/types.ts';

interface EndpointFormProps {
  eventTypes: readonly string[];
  /** The endpoint to change. Without it the form creates one. */
  endpoint?: WebhookEndpoint;
  onClose(): void;
}

interface Saved {
  webhook_endpoint: WebhookEndpoint;
  /** Of a new one. */
  secret?: string;
}

export function EndpointForm({ eventTypes, endpoint, onClose }: EndpointFormProps) {
  const [name, setName] = useState(endpoint?.name ?? '');
  const [url, setUrl] = useState(endpoint?.url ?? '');
  const [chosen, setChosen] = useState<readonly string[]>(endpoint?.event_types ?? []);
  const close = useWhileShown(onClose);
  const save = useMutation({
    mutationFn: () => {
      const body = { name, url, event_types: chosen };
      return endpoint === undefined
        ? postOnce<Saved>('/api/webhook_endpoints', body)
        : request<Saved>('PATCH', `/api/webhook_endpoints/${endpoint.id}`, { body });
    },
    onSuccess: async ({ webhook_endpoint: saved, secret }) => {
      close();
      if (secret === undefined) notify('The endpoint was changed.');
      else showSigningSecret(saved.name, secret);
      await refresh('/api/webhook_endpoints');
    },
  });
  return (
    <Dialog title={endpoint === undefined ? 'New webhook endpoint' : 'Change endpoint'} onClose={onClose} wide>
      <DialogForm action={endpoint === undefined ? 'Create endpoint' : 'Save'} work={save} onSubmit={() => save.mutate()} onClose={onClose}>
        <Field label="Name">
          {(props) => (
            <input {...props} className="input" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
          )}
        </Field>
        <Field label="URL" hint="HTTPS, on the public internet.">
          {(props) => (
            <input
              {...props}
              type="url"
              className="input"
              required
              maxLength={2048}
              value={url}
              onChange={(event) => setUrl(event.target.value)}
            />
          )}
        </Field>
        <fieldset>
          <legend className="mb-1 font-medium">Events</legend>
          <p className="mb-2 text-dim">None chosen means every one of them.</p>
          <div className="gap-x-4 sm:columns-2 [&>label]:mb-1 [&>label]:flex">
            {eventTypes.map((type) => (
              <Toggle
                key={type}
                label={type}
                checked={chosen.includes(type)}
                onChange={(next) => setChosen(next ? [...chosen, type] : chosen.filter((other) => other !== type))}
              />
            ))}
          </div>
        </fieldset>
      </DialogForm>
    </Dialog>
  );
}

export function showSigningSecret(endpoint: string, secret: string): void {
  showOnce({
    title: 'Save this signing secret now',
    text: `It is shown only once. Your backend uses it to verify what is sent to ${endpoint}.`,
    value: secret,
    copyLabel: 'Copy secret',
    done: 'I have saved it',
  });
}
