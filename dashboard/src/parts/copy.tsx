import { Check, Copy } from 'lucide-react';
import { useState } from 'react';
import { IconButton } from './button.tsx';
import { notifyError } from './notice.tsx';

/** An id that a click copies. In a narrow place it is truncated, but copied whole. */
export function CopyId({ value, className = '' }: { value: string; className?: string }) {
  const { copied, copy } = useCopy(value);
  return (
    <button
      type="button"
      onClick={copy}
      title={copied ? 'Copied' : `Copy ${value}`}
      className={`group inline-flex max-w-full items-center gap-1 rounded-sm font-mono text-[0.92em] hover:text-accent ${className}`}
    >
      <span className="truncate">{value}</span>
      {copied ? (
        <Check size={12} className="shrink-0 text-accent" aria-label="Copied" />
      ) : (
        <Copy size={12} className="shrink-0 text-faint opacity-50 group-hover:opacity-100 group-focus-visible:opacity-100" aria-hidden />
      )}
    </button>
  );
}

export function CopyButton({ value, label = 'Copy' }: { value: string; label?: string }) {
  const { copied, copy } = useCopy(value);
  return (
    <IconButton label={copied ? 'Copied' : label} onClick={copy}>
      {copied ? <Check size={15} className="text-accent" /> : <Copy size={15} />}
    </IconButton>
  );
}

/** Code with a copy button. With `wrap`, long lines (of a command, say) are wrapped instead of scrolled. */
export function CodeBlock({ text, label = 'Copy', wrap = false }: { text: string; label?: string; wrap?: boolean }) {
  return (
    <div className="relative rounded-md border border-line bg-sunken">
      <pre
        className={`p-3 pr-11 leading-relaxed ${wrap ? 'break-words whitespace-pre-wrap' : 'overflow-x-auto'}`}
        {...(wrap ? {} : { tabIndex: 0 })}
      >
        {text}
      </pre>
      <div className="absolute top-1 right-1 rounded-md bg-sunken">
        <CopyButton value={text} label={label} />
      </div>
    </div>
  );
}

function useCopy(value: string): { copied: boolean; copy(): void } {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    writeClipboard(value).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    }, notifyError);
  };
  return { copied, copy };
}

/** Browsers have no clipboard API on pages over plain HTTP, or refuse it. There, `execCommand` still works. */
async function writeClipboard(value: string): Promise<void> {
  try {
    return await navigator.clipboard.writeText(value);
  } catch {
    const focused = document.activeElement;
    const area = document.createElement('textarea');
    area.value = value;
    // Everything outside an open modal dialog is inert and cannot be selected.
    ([...document.querySelectorAll('dialog:modal')].at(-1) ?? document.body).append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    if (!isCopied) throw new Error('The browser did not let this page copy. Select the text and copy it yourself.');
  }
}
