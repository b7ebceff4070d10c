import { Field } from './field.tsx';

interface PasswordProps {
  label?: string;
  name?: string;
}

/** The password that an account has. */
export function PasswordField({ label = 'Password', name = 'password' }: PasswordProps) {
  return (
    <Field label={label}>
      {(props) => <input {...props} name={name} type="password" autoComplete="current-password" required className="input" />}
    </Field>
  );
}

/** A password that is being chosen. The bounds are the server's. */
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
