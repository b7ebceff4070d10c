import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { RequestError } from '../server/request.ts';
import { CodeBlock, CopyId } from './copy.tsx';

interface PageProps {
  title: string;
  /** Title of the browser tab, if the page's own would be the same in several tabs. */
  tab?: string;
  /** Shown beside the title: a count, an id or a state. */
  aside?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** The page fills the window and its parts scroll, instead of the page as a whole. */
  full?: boolean;
}

export function Page({ title, tab = title, aside, actions, children, full = false }: PageProps) {
  useEffect(() => {
    document.title = `${tab} · Parley`;
  }, [tab]);
  return (
    <div className={full ? 'flex h-full min-h-0 flex-col' : 'mx-auto max-w-6xl px-4 pb-16 sm:px-6'}>
      <header className={`flex flex-wrap items-center gap-x-3 gap-y-2 ${full ? 'border-b border-line px-4 py-2.5 sm:px-6' : 'py-5'}`}>
        <h1 className="min-w-0 text-[1.3rem] [overflow-wrap:anywhere]">{title}</h1>
        {aside !== undefined && <div className="min-w-0 text-dim">{aside}</div>}
        {actions !== undefined && <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A page whose data is loading, or could not be read. */
export function UnreadPage({ title, error }: { title: string; error: Error | null }) {
  return <Page title={title}>{error === null ? <Waiting /> : <Failure error={error} />}</Page>;
}

/** A page about something that does not exist, with a link to the list of what does. */
export function MissingPage({ title, text, to, all }: { title: string; text: string; to: string; all: string }) {
  const list = (
    <Link to={to} className="text-accent underline">
      {all}
    </Link>
  );
  return (
    <Page title={title}>
      <Empty title={text} text={list} />
    </Page>
  );
}

export function Section({ title, hint, actions, children }: { title: string; hint?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="mb-8">
      <div className="mb-2 flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="text-[1.05rem]">{title}</h2>
        {hint !== undefined && <p className="text-dim">{hint}</p>}
        {actions !== undefined && <div className="ml-auto flex gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** Shown in place of an empty list: why it is empty, and what to do next. */
export function Empty({ title, text, command, children }: { title: string; text?: ReactNode; command?: string; children?: ReactNode }) {
  return (
    <div className="mb-4 max-w-2xl py-4">
      <p className="font-medium [overflow-wrap:anywhere]">{title}</p>
      {text !== undefined && <p className="mt-1 text-dim">{text}</p>}
      {command !== undefined && (
        <div className="mt-4">
          <CodeBlock text={command} label="Copy command" wrap />
        </div>
      )}
      {children !== undefined && <div className="mt-4">{children}</div>}
    </div>
  );
}

const failureShape = 'mb-4 rounded-md border border-bad/40 bg-bad-tint px-3 py-2 text-bad';

export function Failure({ error }: { error: Error }) {
  return (
    // A form spaces its parts itself.
    <div role="alert" className={`${failureShape} [.gap-4>&]:mb-0`}>
      <Reason error={error} />
    </div>
  );
}

/** What is refused says why; what went wrong in the server is only in its log. */
function Reason({ error }: { error: Error }) {
  const requestId = error instanceof RequestError && error.status >= 500 ? error.requestId : undefined;
  return (
    <>
      {error.message}
      {requestId !== undefined && (
        <>
          {' '}
          The server's log says more about this request: <CopyId value={requestId} className="!text-[0.85em]" />
        </>
      )}
    </>
  );
}

/**
 * Says what cannot be read, while it is asked for again. A screen reader says so once, and not again at each of the next reads: the reason,
 * which has the id of a request, is outside of the alert.
 */
export function Unreadable({ text, reason }: { text: string; reason: Error | null }) {
  return (
    <div className={failureShape}>
      <span role="alert">{text}</span> {reason !== null && <Reason error={reason} />}
    </div>
  );
}

/** Names one of several things on a page that cannot be read, until it can be. */
export function Unread({ what, query: { data, error, failureReason, errorUpdateCount } }: { what: string; query: UseQueryResult }) {
  const latest = error ?? failureReason;
  // While what was never read is read again there is no error: the last one stays.
  const [reason, setReason] = useState(latest);
  if (latest !== null && latest !== reason) setReason(latest);
  const isUnread = data === undefined ? latest !== null || errorUpdateCount > 0 : error !== null;
  if (!isUnread) return null;
  return <Unreadable text={`${what} could not be read${data === undefined ? '' : ' again'}.`} reason={reason} />;
}

/** Appears only after a moment (see `.waiting`), so that a fast page does not flicker. */
export function Waiting({ what = 'Loading' }: { what?: string }) {
  return (
    <p role="status" className="waiting px-1 py-6 text-faint">
      {what}…
    </p>
  );
}
