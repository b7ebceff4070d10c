import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field, Toggle } from '../../parts/field.tsx';
import { notify } from '../../parts/notice.tsx';
import { ShownOnce } from '../../parts/shown-once.tsx';
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

export function EndpointForm({ eventTypes, endpoint, onClose }: EndpointFormProps) {
  const [name, setName] = useState(endpoint?.name ?? '');
  const [url, setUrl] = useState(endpoint?.url ?? '');
  const [chosen, setChosen] = useState<readonly string[]>(endpoint?.event_types ?? []);
  const save = useMutation({
    mutationFn: () => {
      const body = { name, url, event_types: chosen };
      return endpoint === undefined
        ? postOnce<{ secret?: string }>('/api/webhook_endpoints', body)
        : request<{ secret?: string }>('PATCH', `/api/webhook_endpoints/${endpoint.id}`, { body });
    },
    onSuccess: async ({ secret }) => {
      await refresh('/api/webhook_endpoints');
      if (secret !== undefined) return;
      onClose();
      notify('The endpoint was changed.');
    },
  });
  if (save.data?.secret !== undefined) return <SigningSecret secret={save.data.secret} onClose={onClose} />;
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
          <div className="grid gap-x-4 gap-y-1 sm:grid-cols-2">
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

export function SigningSecret({ secret, onClose }: { secret: string; onClose(): void }) {
  return (
    <ShownOnce
      title="Save this signing secret now"
      text="It is shown only once. Your backend uses it to verify deliveries."
      value={secret}
      copyLabel="Copy secret"
      done="I have saved it"
      onClose={onClose}
    />
  );
}
