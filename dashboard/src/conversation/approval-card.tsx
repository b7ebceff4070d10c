import { useMutation } from '@tanstack/react-query';
import { ShieldQuestion } from 'lucide-react';
import { type ReactNode, useCallback, useLayoutEffect, useRef } from 'react';
import { Button, type ButtonKind } from '../parts/button.tsx';
import { Json } from '../parts/json.tsx';
import { notifyError } from '../parts/notice.tsx';
import { refresh } from '../server/queries.ts';
import { post } from '../server/request.ts';
import { isTyping, Key } from '../shell/shortcuts.tsx';
import type { PendingApproval } from './fold.ts';

const choices: readonly { decision: string; label: string; kind: ButtonKind }[] = [
  { decision: 'approve_once', label: 'Approve once', kind: 'primary' },
  { decision: 'approve_session', label: 'Approve for the session', kind: 'plain' },
  { decision: 'deny', label: 'Deny', kind: 'danger' },
];

interface ApprovalCardProps {
  /** Path of the session that asks, see `managedPath`. */
  base: string;
  request: PendingApproval;
  /** Whether the keys 1, 2 and 3 answer this card. */
  keys: boolean;
  children?: ReactNode;
}

/**
 * When a card was last removed. For a moment after that no answer is accepted: the click or key was probably meant for the
 * removed card, and would answer the one that took its place.
 */
let lastRemovedAt = Number.NEGATIVE_INFINITY;
const settlingMs = 400;

/** An approval request: the tool call with its arguments, and the three possible answers. */
export function ApprovalCard({ base, request, keys, children }: ApprovalCardProps) {
  const { requestId, tool, options, input } = request;
  const answer = useMutation({
    mutationFn: (result: string) => post(`${base}/events`, { type: 'user.tool_confirmation', request_id: requestId, result }),
    onSuccess: () => refresh('/dashboard/api/approvals'),
    onError: notifyError,
  });
  const { mutate, isPending, isSuccess } = answer;
  const answered = isPending || isSuccess;
  const submit = useCallback(
    (decision: string) => {
      if (performance.now() - lastRemovedAt > settlingMs) mutate(decision);
    },
    [mutate],
  );
  const card = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    return () => {
      lastRemovedAt = performance.now();
      // If the removed card had the focus, move it to the message field, or to the page, where 1, 2 and 3 answer the next card.
      if (!element?.querySelector(':focus-visible')) return;
      (document.querySelector<HTMLElement>('textarea[data-search]') ?? document.getElementById('content'))?.focus({ preventScroll: true });
    };
  }, []);
  // In a layout effect, so that the keys work as soon as the card is visible.
  useLayoutEffect(() => {
    if (!keys || answered) return;
    const onKey = (event: KeyboardEvent) => {
      const choice = choices[Number(event.key) - 1];
      if (choice === undefined || event.repeat || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (!options.includes(choice.decision)) return;
      event.preventDefault();
      submit(choice.decision);
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, [keys, answered, options, submit]);
  return (
    <section ref={card} aria-label={`Approval for ${tool}`} className="rounded-lg border border-warn/50 bg-panel">
      <div className="flex items-start gap-2 border-b border-line px-3 py-2">
        <ShieldQuestion size={16} className="mt-0.5 shrink-0 text-warn" aria-hidden />
        <div className="min-w-0 [overflow-wrap:anywhere]">
          <p className="font-medium">
            {questionOf(request)} <code className="rounded-sm bg-sunken px-1.5 font-normal text-dim">{tool}</code>
          </p>
          {children !== undefined && <p className="text-dim">{children}</p>}
        </div>
      </div>
      <section className="shows-more max-h-72 overflow-auto px-3 py-2" tabIndex={0} aria-label="Arguments">
        <Json value={input ?? {}} />
      </section>
      <div className="flex flex-wrap gap-2 border-t border-line px-3 py-2.5">
        {choices.map(({ decision, label, kind }, index) => (
          <Button
            key={decision}
            kind={kind}
            disabled={answered || !options.includes(decision)}
            aria-keyshortcuts={keys ? String(index + 1) : undefined}
            onClick={() => submit(decision)}
          >
            {label}
            {keys && (
              <span aria-hidden className="pointer-coarse:hidden">
                <Key>{String(index + 1)}</Key>
              </span>
            )}
          </Button>
        ))}
      </div>
    </section>
  );
}

/** The message repeats the arguments, which are shown in full below it: of a long one the beginning is enough. */
function questionOf({ message, tool }: PendingApproval): string {
  if (message === '') return `Run ${tool}?`;
  return message.length > 200 ? `${message.slice(0, 200)}…` : message;
}
