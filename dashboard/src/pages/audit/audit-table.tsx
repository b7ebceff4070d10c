import { ChevronRight } from 'lucide-react';
import { Fragment } from 'react';
import { CopyButton } from '../../parts/copy.tsx';
import { Json } from '../../parts/json.tsx';
import { Time } from '../../parts/time.tsx';
import type { AuditEvent } from '../../server/types.ts';

interface AuditTableProps {
  events: readonly AuditEvent[];
  /** The id of the event whose JSON is shown, or empty. */
  opened: string;
  onOpen(id: string): void;
}

export function AuditTable({ events, opened, onOpen }: AuditTableProps) {
  return (
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
          {events.map((event) => {
            const id = String(event.id);
            const isOpen = opened === id;
            return (
              <Fragment key={id}>
                <Row event={event} isOpen={isOpen} onToggle={() => onOpen(isOpen ? '' : id)} />
                {isOpen && <Details event={event} />}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Row({ event, isOpen, onToggle }: { event: AuditEvent; isOpen: boolean; onToggle(): void }) {
  return (
    <tr>
      <td className="max-lg:w-full max-lg:max-w-0">
        <button
          type="button"
          aria-expanded={isOpen}
          className="flex items-center gap-1.5 text-left font-mono text-[0.92em] hover:text-accent max-lg:[overflow-wrap:anywhere] lg:whitespace-nowrap"
          onClick={onToggle}
        >
          <ChevronRight size={13} className={`shrink-0 transition-transform ${isOpen ? 'rotate-90' : ''}`} aria-hidden />
          {event.action}
        </button>
        {/* What has no column on a small screen. */}
        <span className="line-clamp-2 pl-[19px] [overflow-wrap:anywhere] text-dim lg:hidden">
          <span className="sm:hidden">{actorOf(event)}: </span>
          {subjectOf(event)}
        </span>
      </td>
      <td className="max-w-56 truncate text-dim max-sm:hidden">{actorOf(event)}</td>
      <td className="w-full max-w-0 truncate text-dim max-lg:hidden" title={subjectOf(event)}>
        {subjectOf(event)}
      </td>
      <td className="number text-dim">
        <Time at={event.created_at} />
      </td>
    </tr>
  );
}

function Details({ event }: { event: AuditEvent }) {
  return (
    <tr>
      <td colSpan={4} className="relative !bg-sunken">
        <Json value={event} className="pr-8" />
        <div className="absolute top-1 right-1">
          <CopyButton value={JSON.stringify(event, null, 2)} label="Copy JSON" />
        </div>
      </td>
    </tr>
  );
}

/** With the name that it had then: of a subject that was deleted since, only the audit log knows it. An id for programs would displace it. */
function subjectOf({ subject_type, subject_id, metadata }: AuditEvent): string {
  const name = metadata.slug ?? metadata.name ?? metadata.email;
  if (typeof name !== 'string') return `${subject_type} ${subject_id}`;
  return `${subject_type} ${/^\d+$/.test(subject_id) ? `${subject_id}, ` : ''}${name}`;
}

function actorOf(event: AuditEvent): string {
  // Without an IP address there was no request: Parley acted by itself, for example disabled an endpoint that kept failing.
  return event.actor_email ?? event.api_key_prefix ?? (event.ip_address === null ? 'Parley' : 'operator');
}
