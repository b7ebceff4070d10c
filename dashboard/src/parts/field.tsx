import { type ReactNode, useId } from 'react';

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  children: (props: { id: string; 'aria-invalid'?: boolean; 'aria-describedby'?: string }) => ReactNode;
}

/** A labelled control with a hint below it, or in its place an error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const note = `${id}-note`;
  const described = hint !== undefined || error !== undefined;
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      {children({ id, ...(error === undefined ? {} : { 'aria-invalid': true }), ...(described ? { 'aria-describedby': note } : {}) })}
      {described && (
        <p id={note} className={`mt-1 text-[0.92em] ${error === undefined ? 'text-dim' : 'text-bad'}`}>
          {error ?? hint}
        </p>
      )}
    </div>
  );
}

interface SelectProps {
  label: string;
  value: string;
  onChange(value: string): void;
  options: readonly { value: string; label: string }[];
  disabled?: boolean;
}

/** A filter. Only screen readers get its label; its first option says what it filters. */
export function Select({ label, value, onChange, options, disabled = false }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      disabled={disabled}
      onChange={(event) => onChange(event.target.value)}
      className="input !w-auto max-w-56 min-w-0 cursor-pointer pr-1 text-ellipsis disabled:cursor-auto disabled:opacity-60"
    >
      {/* The URL may name a value that is not an option (any more): without this, the browser would show the first option. */}
      {!options.some((option) => option.value === value) && <option value={value}>{value}</option>}
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

export function Toggle({
  label,
  checked,
  onChange,
  disabled = false,
}: {
  label: string;
  checked: boolean;
  onChange(next: boolean): void;
  disabled?: boolean;
}) {
  return (
    <label className={`inline-flex items-center gap-2 ${disabled ? 'opacity-60' : ''}`}>
      <input
        type="checkbox"
        className="size-4"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      {label}
    </label>
  );
}
