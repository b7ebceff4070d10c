import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Confirm, Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { refresh, useNavigate } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Agent } from '../../server/types.ts';

/** Buttons to change the agent's name and description, which belong to no release, and to delete the agent. */
export function ChangeAgent({ agent }: { agent: Agent }) {
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<'change' | 'delete'>();
  const path = `/api/agents/${agent.slug}`;
  const close = () => setDialog(undefined);
  const save = useMutation({
    mutationFn: (form: FormData) =>
      request('PATCH', path, { body: { name: textOf(form, 'name').trim(), description: textOf(form, 'description') } }),
    onSuccess: async () => {
      await refresh('/api/agents');
      close();
      notify('The agent was changed.');
    },
  });
  const remove = useMutation({
    mutationFn: () => request('DELETE', path),
    onSuccess: async () => {
      navigate('/agents');
      notify(`${agent.name} was deleted.`);
      await refresh('/api/agents', '/api/organization');
    },
    onError: notifyError,
  });
  return (
    <>
      <Button
        onClick={() => {
          // What was refused before is over.
          if (!save.isPending) save.reset();
          setDialog('change');
        }}
      >
        Change
      </Button>
      <Button kind="danger" onClick={() => setDialog('delete')}>
        Delete
      </Button>
      {dialog === 'change' && (
        <Dialog title={`Change ${agent.name}`} onClose={close}>
          <DialogForm action="Save" work={save} onSubmit={(form) => save.mutate(form)} onClose={close}>
            <Field label="Name">
              {(props) => <input {...props} name="name" className="input" required maxLength={200} defaultValue={agent.name} />}
            </Field>
            <Field label="Description">
              {(props) => <input {...props} name="description" className="input" maxLength={2000} defaultValue={agent.description} />}
            </Field>
          </DialogForm>
        </Dialog>
      )}
      {dialog === 'delete' && (
        <Confirm
          title={`Delete ${agent.name}?`}
          text="Requests to it, and to its sessions, will be answered with 404. This cannot be undone."
          action="Delete agent"
          busy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={close}
        />
      )}
    </>
  );
}
