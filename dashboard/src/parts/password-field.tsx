import { Field } from './field.tsx';

interface PasswordProps {
  label?: string;
  name?: string;
}

/** For the current password of an account. */
export function PasswordField({ label = 'Password', name = 'password' }: PasswordProps) {
  return (
    <Field label={label}>
      {(props) => <input {...props} name={name} type="password" autoComplete="current-password" required className="input" />}
    </Field>
  );
}

/** For a new password. The limits are those of the server. */
export function NewPasswordField({ label = 'Password', name = 'password', hint }: PasswordProps & { hint: string }) {
  return (
    <Field label={label} hint={`At least 10 characters. ${hint}`}>
      {(props) => (
        <input
          {...props}
          name={name}
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          maxLength={256}
          className="input"
        />
      )}
    </Field>
  );
}
