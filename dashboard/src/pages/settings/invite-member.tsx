import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { showOnce } from '../../parts/shown-once.tsx';
import { useWhileShown } from '../../parts/while-shown.ts';
import { postOnce } from '../../server/post-once.ts';
import { refresh } from '../../server/queries.ts';
import type { Invitation } from '../../server/types.ts';
import { roles } from '../../server/values.ts';

export function InviteMember({ onClose }: { onClose(): void }) {
  const close = useWhileShown(onClose);
  const invite = useMutation({
    mutationFn: (form: FormData) =>
      postOnce<{ invitation: Invitation; token: string }>('/api/invitations', {
        email: textOf(form, 'email').trim(),
        role: textOf(form, 'role'),
      }),
    onSuccess: async ({ invitation: { email }, token }) => {
      close();
      showOnce({
        title: 'Share this link',
        text: `It works once, for seven days, for ${email}. No mail was sent.`,
        value: `${window.location.origin}/dashboard/join?token=${token}`,
        copyLabel: 'Copy link',
        done: 'Done',
      });
      await refresh('/api/invitations');
    },
  });
  return (
    <Dialog title="Invite someone" onClose={onClose}>
      <DialogForm action="Create invitation" work={invite} onSubmit={(form) => invite.mutate(form)} onClose={onClose}>
        <Field label="E-mail">{(props) => <input {...props} name="email" type="email" className="input" required />}</Field>
        <Field
          label="Role"
          hint="Members can read everything except the audit log and credentials. Admins and owners can change things. Only owners can add owners."
        >
          {(props) => (
            <select {...props} name="role" className="input" defaultValue="member">
              {roles.map((role) => (
                <option key={role}>{role}</option>
              ))}
            </select>
          )}
        </Field>
      </DialogForm>
    </Dialog>
  );
}
