import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { useSearchParams } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Field } from '../parts/field.tsx';
import { textOf } from '../parts/form-text.ts';
import { Failure } from '../parts/page.tsx';
import { NewPasswordField } from '../parts/password-field.tsx';
import { queryClient, useNavigate } from '../server/queries.ts';
import { post, RequestError } from '../server/request.ts';
import type { Member } from '../server/types.ts';
import { Card } from './card.tsx';

/** The page that the link of an invitation opens, including the first owner's. */
export function Join() {
  const navigate = useNavigate();
  const [params] = useSearchParams();
  const join = useMutation({
    mutationFn: async (form: FormData) => {
      const password = textOf(form, 'password');
      const email = textOf(form, 'email').trim();
      const body = { token: params.get('token') ?? '', name: textOf(form, 'name'), password, ...(email === '' ? {} : { email }) };
      const { member } = await post<{ member: Member }>('/api/invitations/accept', body);
      await post('/auth/sign-in/email', { email: member.email, password });
    },
    onSuccess: () => {
      // Cached data may belong to somebody else who was signed in in this tab.
      queryClient.removeQueries();
      navigate('/');
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    join.mutate(new FormData(event.currentTarget));
  };
  const used = join.error instanceof RequestError && join.error.status === 404;
  return (
    <Card title="Join">
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label="Your name">
          {(props) => <input {...props} name="name" autoComplete="name" required maxLength={200} className="input" />}
        </Field>
        <Field label="E-mail" hint="If the invitation names an address, use the same one.">
          {(props) => <input {...props} name="email" type="email" autoComplete="username" className="input" />}
        </Field>
        <NewPasswordField hint="If you already have an account, enter its password." />
        {join.error !== null && (
          <Failure error={used ? new Error('This invitation is unknown, has expired or was already used.') : join.error} />
        )}
        <Button type="submit" kind="primary" disabled={join.isPending}>
          Join
        </Button>
      </form>
    </Card>
  );
}
