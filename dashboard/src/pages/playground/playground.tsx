import { Braces, PanelRight, Plus } from 'lucide-react';
import { type DragEvent, useLayoutEffect, useRef, useState } from 'react';
import { Link, useParams } from 'wouter';
import { ApprovalCard } from '../../conversation/approval-card.tsx';
import { EventRail } from '../../conversation/event-rail.tsx';
import type { LogEvent } from '../../conversation/log-event.ts';
import { LostLog } from '../../conversation/lost-log.tsx';
import { Transcript } from '../../conversation/transcript.tsx';
import { managedPath, useConversation } from '../../conversation/use-conversation.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Select, Toggle } from '../../parts/field.tsx';
import { Empty, Failure, MissingPage, Page, UnreadPage, Waiting } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { useAgents, useNavigate, useRead, useSignedIn } from '../../server/queries.ts';
import type { RequestError } from '../../server/request.ts';
import type { Agent, List, Release, SessionHead } from '../../server/types.ts';
import { Composer } from './composer.tsx';
import { useComposer } from './use-composer.ts';
import { ViewCode } from './view-code.tsx';
import { Welcome } from './welcome.tsx';

export default function PlaygroundPage() {
  const { data: agents, error, isFetching } = useAgents();
  const { agent: slug } = useParams<{ agent?: string }>();
  const named = agents?.find((each) => each.slug === slug);
  // An agent that was created just now may be missing from a cached list: wait until the list has been read again.
  if (agents === undefined || (slug !== undefined && named === undefined && isFetching))
    return <UnreadPage title="Playground" error={error} />;
  if (slug !== undefined && named === undefined)
    return <MissingPage title="Playground" text="There is no agent with this name." to="/agents" all="All agents" />;
  const agent = named ?? agents.find((each) => each.default) ?? agents[0];
  if (agent === undefined)
    return (
      <Page title="Playground">
        <Empty
          title="No agents yet."
          text="Create one under Agents, or from a terminal:"
          command={curlCommand('POST', '/api/agents', { slug: 'assistant' })}
        >
          <LinkButton to="/agents" kind="primary">
            Go to the agents
          </LinkButton>
        </Empty>
      </Page>
    );
  return <Playground key={agent.slug} agent={agent} agents={agents} />;
}

const railKey = 'parley-rail';

function Playground({ agent, agents }: { agent: Agent; agents: readonly Agent[] }) {
  const navigate = useNavigate();
  const { organization } = useSignedIn();
  const query = useQueryState();
  const sessionId = query.read('session');
  const shownSession = useRef(sessionId);
  useLayoutEffect(() => {
    shownSession.current = sessionId;
  }, [sessionId]);
  const thinking = query.read('thinking') !== 'off';
  const [isCodeOpen, setCodeOpen] = useState(false);
  const [isRailOpen, setRailOpen] = useState(() => (localStorage.getItem(railKey) ?? (window.innerWidth >= 1024 ? 'open' : '')) === 'open');
  const releases = useRead<List<Release>>(`/api/agents/${agent.slug}/releases?limit=50`).data?.data ?? [];
  const session = useRead<{ session: SessionHead }>(`/dashboard/api/sessions/${encodeURIComponent(sessionId)}`, {
    enabled: sessionId !== '',
  });
  const base = sessionId === '' ? undefined : managedPath(organization.slug, agent.slug, sessionId);
  const followed = useConversation(base);
  const { conversation, events, preview, phase, refusal } = followed;
  const release = query.read('release');
  const composer = useComposer({
    org: organization.slug,
    agent: agent.slug,
    sessionId,
    release,
    conversation,
    lastSeq: events.at(-1)?.seq ?? 0,
    // Not if the person has turned to another session before this one was open.
    onSession: (id) => shownSession.current === '' && query.write({ session: id }),
  });
  const toggleRail = () => {
    localStorage.setItem(railKey, isRailOpen ? '' : 'open');
    setRailOpen(!isRailOpen);
  };
  const drop = (event: DragEvent) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    composer.chooseFiles([...composer.files, ...event.dataTransfer.files]);
  };
  const { pending, items } = conversation;
  const pinned = session.data?.session.release;
  const answeringRelease = releases.find(({ active, version }) =>
    pinned ? version === pinned : release ? String(version) === release : active,
  );
  const canAnswer = agent.active_version !== null || release !== '' || sessionId !== '';

  return (
    <Page
      full
      title="Playground"
      actions={
        <>
          <Select
            label="Agent"
            value={agent.slug}
            onChange={(slug) => navigate(`/playground/${slug}`)}
            options={agents.map(({ slug, name }) => ({ value: slug, label: name }))}
          />
          <ReleaseSelect
            agent={agent}
            releases={releases}
            value={pinned === undefined ? release : String(pinned)}
            isPinned={pinned !== undefined}
            onChange={(version) =>
              navigate(withQuery(`/playground/${agent.slug}`, { release: version === String(agent.active_version) ? '' : version }))
            }
          />
          <Toggle label="Thinking" checked={thinking} onChange={(next) => query.write({ thinking: next ? '' : 'off' })} />
          <Button kind="quiet" title="View code" onClick={() => setCodeOpen(true)}>
            <Braces size={15} /> <span className="max-lg:sr-only">View code</span>
          </Button>
          <Button kind="quiet" title="Events" aria-pressed={isRailOpen} onClick={toggleRail}>
            <PanelRight size={15} /> <span className="max-lg:sr-only">Events</span>
          </Button>
          <Button disabled={sessionId === ''} onClick={() => navigate(withQuery(`/playground/${agent.slug}`, { release }))}>
            <Plus size={15} /> New session
          </Button>
        </>
      }
    >
      <div className="flex min-h-0 flex-1">
        <section
          aria-label="Chat"
          className={`${isRailOpen ? 'hidden md:flex' : 'flex'} min-w-0 flex-1 flex-col`}
          onDragOver={(event) => hasFiles(event) && event.preventDefault()}
          onDrop={drop}
        >
          <LostLog {...followed} />
          {refusal !== undefined ? (
            <Refused agent={agent} refusal={refusal} />
          ) : composer.outgoing.length === 0 && (sessionId === '' || (phase === 'live' && items.length === 0)) ? (
            <Welcome agent={agent} canAnswer={canAnswer} onPick={composer.writeText} release={answeringRelease} />
          ) : composer.outgoing.length === 0 && phase !== 'live' && events.length === 0 ? (
            <div className="flex-1 px-4 sm:px-6">
              <Waiting />
            </div>
          ) : (
            <Transcript conversation={conversation} preview={preview} thinking={thinking} outgoing={composer.outgoing}>
              {pending !== undefined && base !== undefined && <ApprovalCard key={pending.requestId} base={base} request={pending} keys />}
            </Transcript>
          )}
          <Composer
            text={composer.text}
            onText={composer.writeText}
            files={composer.files}
            onFiles={composer.chooseFiles}
            isSending={composer.isSending}
            disabled={!canAnswer}
            isTurnRunning={conversation.running}
            isStopping={composer.isStopping}
            onSend={composer.send}
            onStop={composer.stop}
          />
        </section>
        {isRailOpen && <Rail sessionId={sessionId} events={refusal === undefined ? events : []} />}
      </div>
      {isCodeOpen && (
        <ViewCode
          input={{ origin: window.location.origin, org: organization.slug, agent: agent.slug, text: composer.text }}
          onClose={() => setCodeOpen(false)}
        />
      )}
    </Page>
  );
}

/** Anything else that is dragged, such as text into the message, is left to the browser. */
function hasFiles({ dataTransfer }: DragEvent): boolean {
  return dataTransfer.types.includes('Files');
}

interface ReleaseSelectProps {
  agent: Agent;
  releases: readonly Release[];
  value: string;
  /** A session is open, which stays on its release: there is no entry for whichever release is active. */
  isPinned: boolean;
  onChange(version: string): void;
}

function ReleaseSelect({ agent, releases, value, isPinned, onChange }: ReleaseSelectProps) {
  const active = agent.active_version === null ? 'No active release' : `Release ${agent.active_version}, active`;
  const named = releases
    .filter((release) => isPinned || !release.active)
    .map(({ version, state, active: isActive }) => ({
      value: String(version),
      label: `Release ${version}${isActive ? ', active' : ''}${state === 'materialized' ? '' : `, ${state}`}`,
    }));
  return <Select label="Release" value={value} onChange={onChange} options={isPinned ? named : [{ value: '', label: active }, ...named]} />;
}

function Refused({ agent, refusal }: { agent: Agent; refusal: RequestError }) {
  return (
    <div className="flex-1 p-6">
      {refusal.status === 404 ? (
        <Empty title={`${agent.name} has no session with this id.`} text="Start a new one with the button above." />
      ) : (
        <Failure error={refusal} />
      )}
    </div>
  );
}

function Rail({ sessionId, events }: { sessionId: string; events: readonly LogEvent[] }) {
  return (
    <aside aria-label="Event rail" className="flex min-h-0 w-full flex-col border-line md:w-72 md:border-l lg:w-96">
      <div className="flex items-center gap-2 border-b border-line px-3 py-1.5 text-dim">
        {sessionId === '' ? (
          'Events appear here'
        ) : (
          <Link to={`/sessions/${sessionId}`} className="truncate font-mono text-[0.92em] hover:text-accent">
            {sessionId}
          </Link>
        )}
      </div>
      <EventRail events={events} />
    </aside>
  );
}
