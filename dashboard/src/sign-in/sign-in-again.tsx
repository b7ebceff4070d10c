import { useMutation } from '@tanstack/react-query';
import { Dialog } from '../parts/dialog.tsx';
import { DialogForm } from '../parts/dialog-form.tsx';
import { textOf } from '../parts/form-text.ts';
import { PasswordField } from '../parts/password-field.tsx';
import { queryClient } from '../server/queries.ts';
import { post } from '../server/request.ts';

/** Asks for the password over the page when the login has ended, so that nothing typed on the page is lost. */
export function SignInAgain({ email, onLeave }: { email: string; onLeave(): void }) {
  const signIn = useMutation({
    mutationFn: (form: FormData) => post('/auth/sign-in/email', { email, password: textOf(form, 'password') }),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  return (
    <Dialog title="Sign in again" onClose={onLeave}>
      <DialogForm action="Sign in" leave="Leave this page" work={signIn} onSubmit={(form) => signIn.mutate(form)} onClose={onLeave}>
        <p className="text-dim [overflow-wrap:anywhere]">The login of {email} has ended. What you wrote on this page is kept.</p>
        <PasswordField />
      </DialogForm>
    </Dialog>
  );
}
