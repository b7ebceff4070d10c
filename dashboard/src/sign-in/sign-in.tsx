import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useEffect } from 'react';
import { useSearchParams } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Field } from '../parts/field.tsx';
import { textOf } from '../parts/form-text.ts';
import { Failure } from '../parts/page.tsx';
import { PasswordField } from '../parts/password-field.tsx';
import { queryClient, useNavigate } from '../server/queries.ts';
import { post } from '../server/request.ts';
import { Card } from './card.tsx';

export function SignIn() {
  const navigate = useNavigate();
  const [params] = useSearchParams();
  // What was read in this tab is of whoever has left it for this page, and not for the next one, nor for Back.
  useEffect(() => queryClient.removeQueries(), []);
  const signIn = useMutation({
    mutationFn: (form: FormData) => post('/auth/sign-in/email', { email: textOf(form, 'email'), password: textOf(form, 'password') }),
    onSuccess: () => {
      // Only a path of the dashboard: `//` would begin the URL of another site.
      const next = params.get('next') ?? '/';
      navigate(next.startsWith('/') && !next.startsWith('//') ? next : '/');
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    signIn.mutate(new FormData(event.currentTarget));
  };
  return (
    <Card title="Sign in">
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label="E-mail">
          {(props) => <input {...props} name="email" type="email" autoComplete="username" required className="input" />}
        </Field>
        <PasswordField />
        {signIn.error !== null && <Failure error={signIn.error} />}
        <Button type="submit" kind="primary" disabled={signIn.isPending}>
          Sign in
        </Button>
        <p className="text-dim">
          The first owner joins with the link that Parley printed when it first started. Everyone else is invited from Settings, Members.
          Someone who forgot their password is removed there and invited again.
        </p>
      </form>
    </Card>
  );
}
