import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../parts/dialog.tsx';
import { DialogForm } from '../parts/dialog-form.tsx';
import { Field } from '../parts/field.tsx';
import { textOf } from '../parts/form-text.ts';
import { notify } from '../parts/notice.tsx';
import { post } from '../server/request.ts';

export function ChangePassword({ onClose }: { onClose(): void }) {
  const change = useMutation({
    mutationFn: (form: FormData) =>
      post('/auth/change-password', {
        currentPassword: textOf(form, 'current'),
        newPassword: textOf(form, 'new'),
        revokeOtherSessions: true,
      }),
    onSuccess: () => {
      notify('The password was changed. Every other browser is signed out.');
      onClose();
    },
  });
  return (
    <Dialog title="Change password" onClose={onClose}>
      <DialogForm action="Change password" work={change} onSubmit={(form) => change.mutate(form)} onClose={onClose}>
        <Field label="Current password">
          {(props) => <input {...props} name="current" type="password" autoComplete="current-password" required className="input" />}
        </Field>
        <Field label="New password" hint="At least 10 characters. Every other browser is signed out.">
          {(props) => (
            <input
              {...props}
              name="new"
              type="password"
              autoComplete="new-password"
              required
              minLength={10}
              maxLength={256}
              className="input"
            />
          )}
        </Field>
      </DialogForm>
    </Dialog>
  );
}
