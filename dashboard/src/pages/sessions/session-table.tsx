import { Link } from 'wouter';
import { State } from '../../parts/badge.tsx';
import { CopyButton } from '../../parts/copy.tsx';
import { count } from '../../parts/format.ts';
import { Time } from '../../parts/time.tsx';
import type { SessionRow } from '../../server/types.ts';

export function SessionTable({ sessions }: { sessions: readonly SessionRow[] }) {
  return (
    <div className="panel overflow-hidden">
      <table className="grid-table table-fixed">
        <thead>
          <tr>
            <th>Session</th>
            <th className="w-24">State</th>
            <th className="w-36 max-sm:hidden">Agent</th>
            <th className="w-40 max-lg:hidden">End user</th>
            <th className="w-28 max-xl:hidden">Surface</th>
            <th className="number w-24 max-xl:hidden">Messages</th>
            <th className="number w-28">Active</th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <tr key={session.id}>
              <td>
                <span className="flex min-w-0 items-center">
                  <Link to={`/sessions/${session.id}`} className="min-w-0 truncate font-mono text-[0.92em] hover:text-accent">
                    <span className="max-lg:hidden">{session.id}</span>
                    {/* Ids begin with a timestamp, so those of neighbours begin alike: a narrow list shows the end. */}
                    <span className="lg:hidden">{session.id.length > 13 ? `…${session.id.slice(-12)}` : session.id}</span>
                  </Link>
                  <span className="-my-2 opacity-50 focus-within:opacity-100 hover:opacity-100 max-sm:hidden">
                    <CopyButton value={session.id} label={`Copy ${session.id}`} />
                  </span>
                </span>
                <span className="block truncate text-dim sm:hidden">
                  {session.agent}
                  {session.end_user_id !== null && `, ${session.end_user_id}`}
                </span>
              </td>
              <td>
                <State name={session.state} />
              </td>
              <td className="truncate max-sm:hidden" title={`${session.agent}, release ${session.release}`}>
                <Link to={`/agents/${session.agent}`} className="hover:text-accent">
                  {session.agent}
                </Link>{' '}
                <span className="text-faint">r{session.release}</span>
              </td>
              <td className="truncate text-dim max-lg:hidden" title={session.end_user_id ?? undefined}>
                {session.end_user_id ?? '–'}
              </td>
              <td className="text-dim max-xl:hidden">{session.surface}</td>
              <td className="number text-dim max-xl:hidden">{count(session.message_count)}</td>
              <td className="number text-dim">
                <Time at={session.updated_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
