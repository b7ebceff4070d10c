import { Link } from 'wouter';
import type { LogEvent } from '../../conversation/log-event.ts';
import { CopyId } from '../../parts/copy.tsx';
import { Fact } from '../../parts/fact.tsx';
import { count } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { withQuery } from '../../parts/query-state.ts';
import { absoluteTime, Time } from '../../parts/time.tsx';
import type { SessionHead } from '../../server/types.ts';

export function SessionFacts({ session, events }: { session: SessionHead; events: readonly LogEvent[] }) {
  const { input, output } = usedBy(events);
  return (
    <div className="min-h-0 flex-1 overflow-y-auto px-4 py-4 sm:px-6">
      <dl className="grid max-w-2xl grid-cols-[auto_1fr] gap-x-6 gap-y-2">
        <Fact label="Agent">
          <Link to={`/agents/${session.agent}`} className="text-accent underline underline-offset-2">
            {session.agent}
          </Link>
          ,{' '}
          <Link to={`/agents/${session.agent}?tab=edit&from=${session.release}`} className="text-accent underline underline-offset-2">
            release {session.release}
          </Link>
          , sub-agent {session.current_agent}
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
        {events.length > 0 && (
          <Fact label="Tokens">
            {count(input + output)}{' '}
            <span className="text-dim">
              ({count(input)} in, {count(output)} out)
            </span>
          </Fact>
        )}
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

/** What the turns of a log have used. An entry that asks for an approval tells of its turn so far, and the end of the turn of all. */
function usedBy(events: readonly LogEvent[]): { input: number; output: number } {
  let input = 0;
  let output = 0;
  for (const event of events) {
    if (event.type !== 'session.error' && !(event.type === 'session.status_idle' && event.stop_reason !== 'requires_action')) continue;
    input += event.usage.input_tokens;
    output += event.usage.output_tokens;
  }
  return { input, output };
}

/** With the exact time in view: there is no hovering on a touch screen or with a keyboard. */
function ExactTime({ at }: { at: string }) {
  return (
    <>
      <Time at={at} /> <span className="text-dim">({absoluteTime(at)})</span>
    </>
  );
}
