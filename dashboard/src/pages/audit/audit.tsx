import { useMutation } from '@tanstack/react-query';
import { Download, ShieldCheck, ShieldX } from 'lucide-react';
import { Button } from '../../parts/button.tsx';
import { Select } from '../../parts/field.tsx';
import { count, plural } from '../../parts/format.ts';
import { More, usePages } from '../../parts/more.tsx';
import { notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { absoluteTime } from '../../parts/time.tsx';
import { useAll, useMay, useRead } from '../../server/queries.ts';
import { download } from '../../server/request.ts';
import type { AuditEvent, List, Member, Verification } from '../../server/types.ts';
import { auditActions } from '../../server/values.ts';
import { AuditTable } from './audit-table.tsx';

interface AuditFilters {
  action: string;
  user_id: string;
  from: string;
  to: string;
}

interface AuditPageAnswer extends List<AuditEvent> {
  row_estimate?: number;
}

export default function AuditPage() {
  const mayRead = useMay('audit_log:export');
  if (!mayRead)
    return (
      <Page title="Audit log">
        <Empty title="The audit log is for owners and admins." text="Ask one of them for access." />
      </Page>
    );
  return <AuditLog />;
}

function AuditLog() {
  const query = useQueryState();
  const filters: AuditFilters = {
    action: query.read('action'),
    user_id: query.read('user'),
    from: query.read('from'),
    to: query.read('to'),
  };
  const pages = usePages<AuditEvent, AuditPageAnswer>(withQuery('/dashboard/api/audit', { ...filters, limit: 100 }), 10_000);
  // A link may name an event that is older than the listed ones: it is shown after them.
  const opened = query.read('event');
  const isListed = pages.items.some(({ id }) => String(id) === opened);
  const older = useRead<{ event: AuditEvent }>(`/dashboard/api/audit/${encodeURIComponent(opened)}`, {
    enabled: opened !== '' && pages.isSuccess && !isListed,
  }).data?.event;
  const events = isListed || older === undefined ? pages.items : [...pages.items, older];
  const total = pages.data?.pages[0]?.row_estimate;
  const { action, ...otherFilters } = filters;
  const csvPath = withQuery('/api/audit_events.csv', { event_action: action, ...otherFilters });
  const exportCsv = useMutation({ mutationFn: () => download(csvPath, 'audit_events.csv'), onError: notifyError });
  return (
    <Page
      title="Audit log"
      {...(total === undefined ? {} : { aside: plural(total, 'event') })}
      actions={
        <>
          <ChainState />
          <Button disabled={exportCsv.isPending} onClick={() => exportCsv.mutate()}>
            <Download size={15} /> Export CSV
          </Button>
        </>
      }
    >
      <Filters filters={filters} />
      {pages.error !== null && <Failure error={pages.error} />}
      {pages.isPending && <Waiting />}
      {pages.isSuccess && events.length === 0 && <Empty title="No matching events." text="Days are in UTC; both are inclusive." />}
      {events.length > 0 && <AuditTable events={events} opened={opened} onOpen={(event) => query.write({ event })} />}
      <More pages={pages} />
    </Page>
  );
}

function Filters({ filters }: { filters: AuditFilters }) {
  const query = useQueryState();
  const members = useAll<Member>('/api/members').data ?? [];
  return (
    <div className="filters">
      <Select
        label="Action"
        value={filters.action}
        onChange={(action) => query.write({ action, event: '' })}
        options={[{ value: '', label: 'Any action' }, ...auditActions.map((value) => ({ value, label: value }))]}
      />
      <Select
        label="Person"
        value={filters.user_id}
        onChange={(user) => query.write({ user, event: '' })}
        options={[{ value: '', label: 'Anyone' }, ...members.map(({ id, email }) => ({ value: id, label: email }))]}
      />
      <label className="flex gap-x-1.5 text-dim max-sm:flex-col sm:items-center">
        From
        <input
          type="date"
          className="input !w-auto"
          value={filters.from}
          onChange={(event) => query.write({ from: event.target.value, event: '' })}
        />
      </label>
      <label className="flex gap-x-1.5 text-dim max-sm:flex-col sm:items-center">
        To
        <input
          type="date"
          className="input !w-auto"
          value={filters.to}
          onChange={(event) => query.write({ to: event.target.value, event: '' })}
        />
        <span className="max-sm:hidden">UTC</span>
      </label>
    </div>
  );
}

/** Whether the chain of hashes shows that no recorded event was changed since. A click checks it again. */
function ChainState() {
  const { data, error, isFetching, refetch } = useRead<Verification>('/api/audit_events/verification', {
    staleTime: 60_000,
    // It reads all events: not again by itself, as other reads that failed.
    refetchInterval: false,
  });
  return (
    <Button kind="quiet" disabled={isFetching} title={data && `Newest hash: ${data.head}`} onClick={() => void refetch()}>
      {data !== undefined && data.broken !== null ? (
        // This stays, whatever becomes of a later check.
        <span className="inline-flex items-center gap-1.5 text-bad">
          <ShieldX size={15} /> Chain broken at {data.broken.action}, {absoluteTime(data.broken.created_at)}: {data.broken.reason}
        </span>
      ) : data !== undefined && error === null ? (
        <>
          <ShieldCheck size={15} className="text-accent" /> Chain verified, {count(data.checked)} events
        </>
      ) : isFetching ? (
        'Checking the chain…'
      ) : (
        <span className="text-bad">The chain was not checked. Check again</span>
      )}
    </Button>
  );
}
