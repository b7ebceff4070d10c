import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { CodeBlock } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Field, Select } from '../../parts/field.tsx';
import { Failure } from '../../parts/page.tsx';
import { forget } from '../../server/queries.ts';
import { post } from '../../server/request.ts';
import { textOf } from '../../sign-in/form.ts';
import { roles } from './members.tsx';

export function InviteMember({ onClose }: { onClose(): void }) {
  const [role, setRole] = useState('member');
  const invite = useMutation({
    mutationFn: (form: FormData) => post<{ token: string }>('/api/invitations', { email: textOf(form, 'email').trim(), role }),
    onSuccess: () => forget('/api/invitations'),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    invite.mutate(new FormData(event.currentTarget));
  };
  if (invite.data !== undefined)
    return (
      <Dialog title="Pass this link on" onClose={onClose}>
        <p className="mb-3 text-dim">It works once, for seven days. Nothing was mailed.</p>
        <CodeBlock text={`${window.location.origin}/dashboard/join?token=${invite.data.token}`} label="Copy link" />
        <div className="mt-4 flex justify-end">
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="Invite someone" onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label="E-mail">{(props) => <input {...props} name="email" type="email" className="input" required />}</Field>
        <Field
          label="Role"
          hint="Members read everything but the audit log and credentials; admins and owners change things; owners make owners."
        >
          {() => <Select label="Role" value={role} onChange={setRole} options={roles} />}
        </Field>
        {invite.error !== null && <Failure error={invite.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={invite.isPending}>
            Make invitation
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
