import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../parts/dialog.tsx';
import { DialogForm } from '../parts/dialog-form.tsx';
import { textOf } from '../parts/form-text.ts';
import { notify } from '../parts/notice.tsx';
import { NewPasswordField, PasswordField } from '../parts/password-field.tsx';
import { queryClient } from '../server/queries.ts';
import { post } from '../server/request.ts';

export function ChangePassword({ onClose }: { onClose(): void }) {
  const change = useMutation({
    mutationFn: (form: FormData) =>
      post('/auth/change-password', {
        currentPassword: textOf(form, 'current'),
        newPassword: textOf(form, 'new'),
      }),
    onSuccess: async () => {
      notify('The password was changed. Every other browser is signed out.');
      onClose();
      // What was read while it was changed may have been refused, since it still had the login that has ended.
      await queryClient.invalidateQueries();
    },
  });
  return (
    <Dialog title="Change password" onClose={onClose}>
      <DialogForm action="Change password" work={change} onSubmit={(form) => change.mutate(form)} onClose={onClose}>
        <PasswordField label="Current password" name="current" />
        <NewPasswordField label="New password" name="new" hint="Every other browser is signed out." />
      </DialogForm>
    </Dialog>
  );
}
