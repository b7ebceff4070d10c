import { ChevronRight, Paperclip } from 'lucide-react';
import { memo } from 'react';
import { State } from '../parts/badge.tsx';
import { count, duration, timeOfDay } from '../parts/format.ts';
import { Json } from '../parts/json.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { absoluteTime, Moment } from '../parts/time.tsx';
import type { Item, ToolItem } from './fold.ts';

const endings: Record<string, string> = {
  end_turn: '',
  denied: 'Denied, continued without it',
  interrupted: 'Stopped',
  max_steps: 'Reached the step limit',
};

/** One item of a conversation. */
export const ItemView = memo(function ItemView({ item }: { item: Item }) {
  switch (item.kind) {
    case 'user':
      return <UserMessage {...item} title={absoluteTime(item.at)} />;
    case 'agent':
      return (
        <div className="max-w-[46rem]" title={absoluteTime(item.at)}>
          <Markdown text={item.text} />
        </div>
      );
    case 'thinking':
      return (
        <details className="group max-w-[46rem] text-dim">
          <summary className="flex w-fit list-none items-center gap-1 rounded-sm select-none">
            <ChevronRight size={13} className="transition-transform group-open:rotate-90" aria-hidden /> Thinking
          </summary>
          <p dir="auto" className="mt-1 ml-1.5 border-l border-line pl-3 break-words whitespace-pre-wrap italic">
            {item.text}
          </p>
        </details>
      );
    case 'tool':
      return <ToolView item={item} />;
    case 'end':
      return (
        <p className="flex items-center gap-2 text-[0.88em] text-faint">
          {endings[item.reason] ?? item.reason}
          <span>
            {duration(item.milliseconds)}
            {item.tokens > 0 && `, ${count(item.tokens)} tokens`}, <At at={item.at} />
          </span>
        </p>
      );
    case 'error':
      return (
        <p className="w-fit max-w-full rounded-md bg-bad-tint px-3 py-1.5 [overflow-wrap:anywhere] text-bad">
          <span className="font-medium">{item.code}:</span> {item.message}{' '}
          <span className="ml-1 text-[0.88em]">
            <At at={item.at} />
          </span>
        </p>
      );
    case 'note':
      return <p className="text-[0.92em] text-dim">{item.text}</p>;
  }
});

/** Not how long ago it was: a screen reader announces what changes in a conversation. */
function At({ at }: { at: string }) {
  return <Moment at={at}>{timeOfDay(at)}</Moment>;
}

interface UserMessageProps {
  text: string;
  files: readonly string[];
  /** Of a participant other than the end user. */
  name?: string;
  title?: string;
}

export function UserMessage({ text, files, name = '', title }: UserMessageProps) {
  return (
    <div className="ml-auto w-fit max-w-[85%] rounded-lg bg-tint px-3 py-2" title={title}>
      {name !== '' && <p className="text-[0.88em] font-medium [overflow-wrap:anywhere] text-accent">{name}</p>}
      <p dir="auto" className="break-words whitespace-pre-wrap">
        {text}
      </p>
      {files.map((file) => (
        <p key={file} className="mt-1 flex items-center gap-1.5 text-[0.92em] text-dim">
          <Paperclip size={12} className="shrink-0" aria-hidden /> <span className="min-w-0 break-words">{file}</span>
        </p>
      ))}
    </div>
  );
}

function ToolView({ item }: { item: ToolItem }) {
  const state = item.output === undefined ? 'pending' : item.isError ? 'failed' : 'done';
  const took = item.finishedAt === undefined ? undefined : Date.parse(item.finishedAt) - Date.parse(item.at);
  return (
    <details className="group max-w-[46rem] rounded-md border border-line bg-panel">
      <summary className="flex list-none items-center gap-2 rounded-md px-2.5 py-1.5 select-none hover:bg-hover">
        <ChevronRight size={13} className="shrink-0 transition-transform group-open:rotate-90" aria-hidden />
        <code className="min-w-0 font-medium [overflow-wrap:anywhere]">{item.tool}</code>
        <code className="min-w-0 flex-1 truncate text-dim">{summary(item.input)}</code>
        {took !== undefined && <span className="text-[0.88em] text-faint">{duration(took)}</span>}
        <State name={state} />
      </summary>
      <div className="border-t border-line px-3 py-2">
        <Json value={item.input} />
        {item.output !== undefined && (
          <pre className="mt-2 max-h-80 overflow-auto border-t border-line pt-2 text-[0.88em] break-words whitespace-pre-wrap" tabIndex={0}>
            {item.output === '' ? '(no output)' : item.output}
          </pre>
        )}
      </div>
    </details>
  );
}

/** The argument that tells most about a call, for the closed row; all of them as JSON if none of these is there. */
function summary(input: unknown): string {
  if (typeof input !== 'object' || input === null) return '';
  for (const name of ['command', 'path', 'url', 'query', 'name']) {
    const value: unknown = Reflect.get(input, name);
    if (typeof value === 'string') return value;
  }
  return JSON.stringify(input);
}
