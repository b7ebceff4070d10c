interface TabsProps {
  label: string;
  value: string;
  onChange(value: string): void;
  tabs: readonly { value: string; label: string; note?: string }[];
}

/** Switches between views of one thing. Toggle buttons, not ARIA tabs: each is reached with Tab and has a pressed state. */
export function Tabs({ label, value, onChange, tabs }: TabsProps) {
  return (
    <fieldset className="flex min-w-0 gap-1 overflow-x-auto">
      <legend className="sr-only">{label}</legend>
      {tabs.map((tab) => (
        <button
          key={tab.value}
          type="button"
          aria-pressed={tab.value === value}
          onClick={() => onChange(tab.value)}
          className="rounded-md px-2.5 py-1 whitespace-nowrap text-dim hover:bg-hover hover:text-ink aria-pressed:bg-tint aria-pressed:font-medium aria-pressed:text-accent"
        >
          {tab.label}
          {tab.note !== undefined && ' '}
          {tab.note !== undefined && <span className="ml-0.5 text-[0.9em]">{tab.note}</span>}
        </button>
      ))}
    </fieldset>
  );
}
