import { Link } from 'wouter';
import { CopyId } from '../../parts/copy.tsx';
import { Fact } from '../../parts/fact.tsx';
import { count } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { withQuery } from '../../parts/query-state.ts';
import { absoluteTime, Time } from '../../parts/time.tsx';
import type { SessionHead } from '../../server/types.ts';

export function SessionFacts({ session }: { session: SessionHead }) {
  return (
    <div className="min-h-0 flex-1 overflow-y-auto px-4 py-4 sm:px-6">
      <dl className="grid max-w-2xl grid-cols-[auto_1fr] gap-x-6 gap-y-2">
        <Fact label="Agent">
          <Link to={`/agents/${session.agent}`} className="text-accent underline underline-offset-2">
            {session.agent}
          </Link>
          , release {session.release}, sub-agent {session.current_agent}
        </Fact>
        <Fact label="End user">
          {session.end_user_id === null ? (
            'none'
          ) : (
            <span className="flex flex-wrap gap-x-3">
              <CopyId value={session.end_user_id} />
              <Link to={withQuery('/sessions', { q: session.end_user_id })} className="text-accent underline underline-offset-2">
                All sessions
              </Link>
            </span>
          )}
        </Fact>
        <Fact label="Durable instance">
          <CopyId value={session.instance} />
        </Fact>
        <Fact label="Surface">{session.surface}</Fact>
        <Fact label="Permissions">{session.permission_mode ?? 'as the release says'}</Fact>
        <Fact label="Messages">{count(session.message_count)}</Fact>
        <Fact label="Events">{count(session.event_count)}</Fact>
        <Fact label="Created">
          <ExactTime at={session.created_at} />
        </Fact>
        <Fact label="Last active">
          <ExactTime at={session.updated_at} />
        </Fact>
      </dl>
      <h2 className="mt-6 mb-2">Metadata</h2>
      <div className="max-w-2xl rounded-md border border-line bg-sunken p-3">
        <Json value={session.metadata} />
      </div>
    </div>
  );
}

/** With the exact time in view: there is no hovering on a touch screen or with a keyboard. */
function ExactTime({ at }: { at: string }) {
  return (
    <>
      <Time at={at} /> <span className="text-dim">({absoluteTime(at)})</span>
    </>
  );
}
