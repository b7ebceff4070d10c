import { CircleStop, Paperclip, SendHorizontal, X } from 'lucide-react';
import { type FormEvent, useRef } from 'react';
import { Button, IconButton } from '../../parts/button.tsx';
import { bytes } from '../../parts/format.ts';

interface ComposerProps {
  text: string;
  onText(text: string): void;
  files: readonly File[];
  onFiles(files: readonly File[]): void;
  isSending: boolean;
  /** No release could answer. */
  disabled: boolean;
  isTurnRunning: boolean;
  isStopping: boolean;
  onSend(): void;
  onStop(): void;
}

const hasMouse = window.matchMedia('(pointer: fine)').matches;

export function Composer({ text, onText, files, onFiles, isSending, disabled, isTurnRunning, isStopping, onSend, onStop }: ComposerProps) {
  const picker = useRef<HTMLInputElement>(null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() !== '' && !isSending && !disabled) onSend();
  };
  return (
    <form onSubmit={submit} className="border-t border-line px-4 py-3 sm:px-6">
      <div className="mx-auto max-w-3xl">
        {files.length > 0 && (
          <ul className="mb-2 flex flex-wrap gap-2">
            {files.map((file) => (
              <li key={`${file.name} ${file.size}`} className="inline-flex max-w-full items-center gap-1 rounded-md bg-sunken pl-2">
                <span className="truncate" title={file.name}>
                  {file.name}
                </span>
                <span className="shrink-0 text-faint">{bytes(file.size)}</span>
                <IconButton label={`Remove ${file.name}`} onClick={() => onFiles(files.filter((other) => other !== file))}>
                  <X size={13} />
                </IconButton>
              </li>
            ))}
          </ul>
        )}
        <div className="flex items-end gap-2">
          <textarea
            data-search
            dir="auto"
            aria-label="Message"
            placeholder={disabled ? 'This agent cannot answer yet' : hasMouse ? 'Write a message, or drop a file here' : 'Write a message'}
            disabled={disabled}
            value={text}
            rows={1}
            className="input max-h-60 min-h-[2.6rem] flex-1 resize-none py-2 [field-sizing:content]"
            onChange={(event) => onText(event.target.value)}
            onKeyDown={(event) => {
              // A key that ends the composition of an input method does nothing else. In Safari only its code, 229, tells it apart.
              if (event.nativeEvent.isComposing || event.keyCode === 229) return;
              if (event.key === 'Enter' && !event.shiftKey) submit(event);
              if (event.key === 'Escape') event.currentTarget.blur();
            }}
          />
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label="Files"
            onChange={(event) => {
              onFiles([...files, ...(event.target.files ?? [])]);
              event.target.value = '';
            }}
          />
          <IconButton label="Attach files" className="!h-[2.6rem]" disabled={disabled} onClick={() => picker.current?.click()}>
            <Paperclip size={16} />
          </IconButton>
          {isTurnRunning && (
            <Button className="!h-[2.6rem]" disabled={isStopping} onClick={onStop}>
              <CircleStop size={16} /> Stop
            </Button>
          )}
          <Button type="submit" kind="primary" className="!h-[2.6rem]" disabled={isSending || disabled || text.trim() === ''}>
            <SendHorizontal size={16} /> Send
          </Button>
        </div>
      </div>
    </form>
  );
}
