import { useMutation } from '@tanstack/react-query';
import { ChevronRight, Download, ShieldCheck, ShieldX } from 'lucide-react';
import { Fragment } from 'react';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy.tsx';
import { Select } from '../../parts/field.tsx';
import { count, plural } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { More, usePages } from '../../parts/more.tsx';
import { notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { absoluteTime, Time } from '../../parts/time.tsx';
import { useMay, useRead } from '../../server/queries.ts';
import { download } from '../../server/request.ts';
import type { AuditEvent, List, Member, Verification } from '../../server/types.ts';
import { auditActions } from '../../server/values.ts';

interface AuditPageAnswer extends List<AuditEvent> {
  row_estimate?: number;
}

export default function AuditPage() {
  const may = useMay('audit_log:export');
  if (!may)
    return (
      <Page title="Audit log">
        <Empty title="The audit log is for owners and admins." text="Ask one of them for access." />
      </Page>
    );
  return <AuditLog />;
}

function AuditLog() {
  const query = useQueryState();
  const open = Number(query.read('event'));
  const filters = { action: query.read('action'), user_id: query.read('user'), from: query.read('from'), to: query.read('to') };
  const pages = usePages<AuditEvent, AuditPageAnswer>(withQuery('/dashboard/api/audit', { ...filters, limit: 100 }), 10_000);
  const members = useRead<List<Member>>('/api/members?limit=200').data?.data ?? [];
  const total = pages.data?.pages[0]?.row_estimate;
  const csv = withQuery('/api/audit_events.csv', {
    event_action: filters.action,
    user_id: filters.user_id,
    from: filters.from,
    to: filters.to,
  });
  const save = useMutation({ mutationFn: () => download(csv, 'audit_events.csv'), onError: notifyError });
  return (
    <Page
      title="Audit log"
      {...(total === undefined ? {} : { aside: plural(total, 'event') })}
      actions={
        <>
          <ChainState />
          <Button disabled={save.isPending} onClick={() => save.mutate()}>
            <Download size={15} /> Export CSV
          </Button>
        </>
      }
    >
      <div className="filters">
        <Select
          label="Action"
          value={filters.action}
          onChange={(action) => query.write({ action })}
          options={[{ value: '', label: 'Any action' }, ...auditActions.map((value) => ({ value, label: value }))]}
        />
        <Select
          label="Person"
          value={filters.user_id}
          onChange={(user) => query.write({ user })}
          options={[{ value: '', label: 'Anyone' }, ...members.map(({ id, email }) => ({ value: id, label: email }))]}
        />
        <label className="flex items-center gap-1.5 text-dim">
          From
          <input
            type="date"
            className="input !w-auto"
            value={filters.from}
            onChange={(event) => query.write({ from: event.target.value })}
          />
        </label>
        <label className="flex items-center gap-1.5 text-dim">
          to
          <input type="date" className="input !w-auto" value={filters.to} onChange={(event) => query.write({ to: event.target.value })} />
          <span className="max-sm:hidden">UTC</span>
        </label>
      </div>
      {pages.error !== null && <Failure error={pages.error} />}
      {pages.isPending && <Waiting />}
      {pages.isSuccess && pages.items.length === 0 && <Empty title="No matching events." text="Days are in UTC; both are inclusive." />}
      {pages.items.length > 0 && (
        <div className="panel overflow-hidden">
          <table className="grid-table">
            <thead>
              <tr>
                <th>Action</th>
                <th className="max-sm:hidden">By</th>
                <th className="max-lg:hidden">Subject</th>
                <th className="number">When</th>
              </tr>
            </thead>
            <tbody>
              {pages.items.map((event) => (
                <Fragment key={event.id}>
                  <tr>
                    <td>
                      <button
                        type="button"
                        aria-expanded={open === event.id}
                        className="flex items-center gap-1.5 text-left font-mono text-[0.92em] hover:text-accent max-lg:[overflow-wrap:anywhere] lg:whitespace-nowrap"
                        onClick={() => query.write({ event: open === event.id ? '' : String(event.id) })}
                      >
                        <ChevronRight
                          size={13}
                          className={`shrink-0 transition-transform ${open === event.id ? 'rotate-90' : ''}`}
                          aria-hidden
                        />
                        {event.action}
                      </button>
                    </td>
                    <td className="max-w-56 truncate text-dim max-sm:hidden">{actorOf(event)}</td>
                    <td className="w-full max-w-0 truncate text-dim max-lg:hidden" title={subjectOf(event)}>
                      {subjectOf(event)}
                    </td>
                    <td className="number text-dim">
                      <Time at={event.created_at} />
                    </td>
                  </tr>
                  {open === event.id && (
                    <tr>
                      <td colSpan={4} className="relative !bg-sunken">
                        <Json value={event} className="pr-8" />
                        <div className="absolute top-1 right-1">
                          <CopyButton value={JSON.stringify(event, null, 2)} label="Copy JSON" />
                        </div>
                      </td>
                    </tr>
                  )}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More pages={pages} />
    </Page>
  );
}

/** Whether nobody changed what was recorded: every event holds a hash of the one before it. */
function ChainState() {
  const { data, error, isFetching, refetch } = useRead<Verification>('/api/audit_events/verification', { staleTime: 60_000 });
  if (data === undefined)
    return error === null ? (
      <span className="text-faint">Checking the chain…</span>
    ) : (
      <span className="text-bad">The chain was not checked</span>
    );
  return (
    <Button kind="quiet" disabled={isFetching} title={data.broken?.reason ?? `Newest hash: ${data.head}`} onClick={() => void refetch()}>
      {data.broken === null ? (
        <>
          <ShieldCheck size={15} className="text-accent" /> Chain verified, {count(data.checked)} events
        </>
      ) : (
        <span className="inline-flex items-center gap-1.5 text-bad">
          <ShieldX size={15} /> Chain broken at {data.broken.action}, {absoluteTime(data.broken.created_at)}: {data.broken.reason}
        </span>
      )}
    </Button>
  );
}

/** With the name that it had: what was deleted is found nowhere else. */
function subjectOf({ subject_type, subject_id, metadata }: AuditEvent): string {
  const name = metadata.slug ?? metadata.name ?? metadata.email;
  return `${subject_type} ${subject_id}${typeof name === 'string' ? `, ${name}` : ''}`;
}

function actorOf(event: AuditEvent): string {
  // What happens by itself, such as an endpoint that is disabled for its failures, came in no request.
  return event.actor_email ?? event.api_key_prefix ?? (event.ip_address === null ? 'Parley' : 'operator');
}
