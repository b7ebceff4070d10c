import { useMutation } from '@tanstack/react-query';
import { CirclePlay, CircleStop, TerminalSquare } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Link, useParams } from 'wouter';
import { ApprovalCard } from '../../conversation/approval-card.tsx';
import { EventRail } from '../../conversation/event-rail.tsx';
import { LostLog } from '../../conversation/lost-log.tsx';
import { Timeline } from '../../conversation/timeline.tsx';
import { Transcript } from '../../conversation/transcript.tsx';
import { managedPath, useConversation } from '../../conversation/use-conversation.ts';
import { State } from '../../parts/badge.tsx';
import { Button, LinkButton } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Confirm } from '../../parts/dialog.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, MissingPage, Page, UnreadPage, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { Tabs } from '../../parts/tabs.tsx';
import { postOnce } from '../../server/post-once.ts';
import { refresh, useRead, useSignedIn } from '../../server/queries.ts';
import { RequestError, request } from '../../server/request.ts';
import type { SessionHead } from '../../server/types.ts';
import { SessionFacts } from './session-facts.tsx';

type Followed = ReturnType<typeof useConversation>;

export default function SessionPage() {
  const { id = '' } = useParams<{ id: string }>();
  const { data, error } = useRead<{ session: SessionHead }>(pathOf(id), { refetchInterval: 5_000 });
  if (error instanceof RequestError && error.status === 404)
    return <MissingPage title="Session" text="There is no session with this id." to="/sessions" all="All sessions" />;
  if (data === undefined) return <UnreadPage title="Session" error={error} />;
  return <Session key={id} session={data.session} />;
}

function Session({ session }: { session: SessionHead }) {
  const { organization } = useSignedIn();
  const query = useQueryState();
  const base = managedPath(organization.slug, session.agent, session.id);
  const followed = useConversation(base, session.event_count);
  const { phase } = followed;
  const eventCount = followed.events.length;
  // Events that came after `session` was read may have changed its state: read it again as soon as they pause.
  useEffect(() => {
    if (phase !== 'live' || eventCount <= session.event_count) return;
    const timer = setTimeout(() => void refresh(pathOf(session.id)), 300);
    return () => clearTimeout(timer);
  }, [phase, eventCount, session.event_count, session.id]);
  return (
    <Page
      full
      title="Session"
      tab={`${shortIdOf(session)}, session`}
      aside={
        <span className="flex min-w-0 flex-wrap items-center gap-x-3">
          <CopyId value={session.id} /> <State name={stateOf(session, followed)} />
        </span>
      }
      actions={
        <>
          <LinkButton kind="quiet" to={`/playground/${session.agent}?session=${session.id}`}>
            <TerminalSquare size={15} /> Open in playground
          </LinkButton>
          <StopOrResume session={session} />
        </>
      }
    >
      <div className="flex min-h-0 flex-1 flex-col">
        <div className="border-b border-line px-4 py-1.5 sm:px-6">
          <Tabs
            label="View"
            value={query.read('view') || 'transcript'}
            onChange={(next) => query.write({ view: next === 'transcript' ? '' : next, seq: '' })}
            tabs={[
              { value: 'transcript', label: 'Transcript' },
              { value: 'timeline', label: 'Timeline' },
              { value: 'log', label: 'Raw log', note: String(eventCount) },
              { value: 'facts', label: 'Details' },
            ]}
          />
        </div>
        {query.read('view') !== 'facts' && <LostLog {...followed} />}
        <View session={session} base={base} followed={followed} />
      </div>
    </Page>
  );
}

/** Taken from the log, unless `session` is newer: the log is still being read, or is lost. */
function stateOf(session: SessionHead, { conversation, events, refusal }: Followed): string {
  if (refusal !== undefined || events.length < session.event_count) return session.state;
  if (session.status === 'stopped') return 'stopped';
  if (conversation.pending !== undefined) return 'waiting';
  if (conversation.running) return 'running';
  return conversation.items.at(-1)?.kind === 'error' ? 'failed' : 'idle';
}

function View({ session, base, followed }: { session: SessionHead; base: string; followed: Followed }) {
  const { conversation, events, preview, phase, refusal } = followed;
  const query = useQueryState();
  const view = query.read('view');
  if (view === 'facts') return <SessionFacts session={session} events={events} />;
  if (refusal !== undefined)
    return (
      <div className="px-4 sm:px-6">
        <Refusal error={refusal} />
      </div>
    );
  if (events.length === 0 && phase !== 'live' && session.event_count > 0)
    return (
      <div className="px-4 sm:px-6">
        <Waiting />
      </div>
    );
  if (view === 'log') {
    const seq = Number(query.read('seq'));
    return (
      <EventRail
        events={events}
        follow={Number.isNaN(seq) || seq === 0}
        {...(seq > 0 ? { opened: seq } : {})}
        onOpen={(opened) => query.write({ seq: String(opened) })}
      />
    );
  }
  if (view === 'timeline') return <Timeline events={events} onOpen={(opened) => query.write({ view: 'log', seq: String(opened) })} />;
  if (events.length === 0 && phase === 'live')
    return (
      <div className="px-4 sm:px-6">
        <Empty
          title="No messages in this session yet."
          text="Messages appear here as they are sent. To send one from a terminal:"
          command={curlCommand('POST', `${base}/events`, { type: 'user.message', text: 'Hello!' })}
        />
      </div>
    );
  return (
    <Transcript conversation={conversation} preview={preview} thinking>
      {conversation.pending !== undefined && (
        <ApprovalCard key={conversation.pending.requestId} base={base} request={conversation.pending} keys />
      )}
    </Transcript>
  );
}

function Refusal({ error }: { error: RequestError }) {
  if (error.status === 404)
    return <Empty title="Its agent was deleted." text="Its conversations are kept on record but can no longer be reached." />;
  if (error.status !== 403) return <Failure error={error} />;
  return (
    <Empty
      title="You cannot read this conversation."
      text={
        <>
          {error.message}. An owner or admin can change that under{' '}
          <Link to="/settings/organization" className="text-accent underline underline-offset-2">
            Settings, Organization
          </Link>
          .
        </>
      }
    />
  );
}

function StopOrResume({ session }: { session: SessionHead }) {
  const { organization } = useSignedIn();
  const sessionsPath = `/${organization.slug}/${session.agent}/v1/sessions`;
  const [asking, setAsking] = useState(false);
  const stop = useMutation({
    mutationFn: () => request('DELETE', `${sessionsPath}/${encodeURIComponent(session.id)}`),
    onSuccess: async () => {
      setAsking(false);
      notify('The session was stopped.');
      await refresh('/dashboard/api/sessions');
    },
    onError: notifyError,
  });
  const resume = useMutation({
    mutationFn: () => postOnce(sessionsPath, { session_id: session.id }),
    onSuccess: async () => {
      notify('The session takes messages again.');
      await refresh('/dashboard/api/sessions');
    },
    onError: notifyError,
  });
  if (session.status === 'stopped')
    return (
      <Button disabled={resume.isPending} onClick={() => resume.mutate()}>
        <CirclePlay size={15} /> Resume
      </Button>
    );
  return (
    <>
      <Button kind="danger" onClick={() => setAsking(true)}>
        <CircleStop size={15} /> Stop
      </Button>
      {asking && (
        <Confirm
          title={`Stop session ${shortIdOf(session)}?`}
          text="A running turn is interrupted and new messages are refused. The conversation stays readable, and can be resumed."
          action="Stop session"
          busy={stop.isPending}
          onConfirm={() => stop.mutate()}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

function pathOf(id: string): string {
  return `/dashboard/api/sessions/${encodeURIComponent(id)}`;
}

function shortIdOf({ id }: SessionHead): string {
  return `…${id.slice(-8)}`;
}
