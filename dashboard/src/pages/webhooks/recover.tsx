import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { plural } from '../../parts/format.ts';
import { notify } from '../../parts/notice.tsx';
import { postOnce } from '../../server/post-once.ts';
import { refresh } from '../../server/queries.ts';
import type { WebhookEndpoint } from '../../server/types.ts';

/** Sends the events of a period that an endpoint missed, for when its receiver works again. */
export function Recover({ endpoint, onClose }: { endpoint: WebhookEndpoint; onClose(): void }) {
  const recover = useMutation({
    mutationFn: (form: FormData) => {
      const to = textOf(form, 'to');
      return postOnce<{ recovered: number }>(`/api/webhook_endpoints/${endpoint.id}/recover`, {
        from: new Date(textOf(form, 'from')).toISOString(),
        ...(to === '' ? {} : { to: new Date(to).toISOString() }),
      });
    },
    onSuccess: async ({ recovered }) => {
      onClose();
      const what = plural(recovered, 'delivery', 'deliveries');
      notify(
        recovered === 0 ? 'Nothing was missed in that time.' : `${what} will be sent${endpoint.enabled ? '' : ' once it is enabled'}.`,
      );
      await refresh('/api/webhook_endpoints');
    },
  });
  return (
    <Dialog title={`Recover what ${endpoint.name} missed`} onClose={onClose}>
      <DialogForm action="Recover" work={recover} onSubmit={(form) => recover.mutate(form)} onClose={onClose}>
        <p className="text-dim">
          Sends deliveries that have failed, and events that were never sent to it because it was disabled or did not subscribe to them.
        </p>
        <Field label="From" hint={`In your time zone, ${timeZone()}.`}>
          {(props) => <input {...props} name="from" type="datetime-local" className="input" required defaultValue={yesterday()} />}
        </Field>
        <Field label="To" hint="Leave it empty to recover up to now.">
          {(props) => <input {...props} name="to" type="datetime-local" className="input" />}
        </Field>
      </DialogForm>
    </Dialog>
  );
}

function timeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The same time yesterday, as a `datetime-local` input takes it: in local time, to the minute. */
function yesterday(): string {
  const day = new Date();
  day.setDate(day.getDate() - 1);
  return new Date(day.getTime() - day.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
