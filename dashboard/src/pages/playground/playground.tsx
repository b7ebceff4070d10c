import { Braces, PanelRight, Plus } from 'lucide-react';
import { type DragEvent, useState } from 'react';
import { Link, useParams } from 'wouter';
import { ApprovalCard } from '../../conversation/approval-card.tsx';
import { EventRail } from '../../conversation/event-rail.tsx';
import type { LogEvent } from '../../conversation/log-event.ts';
import { Transcript } from '../../conversation/transcript.tsx';
import { managedPath, useConversation } from '../../conversation/use-conversation.ts';
import { Button } from '../../parts/button.tsx';
import { Select, Toggle } from '../../parts/field.tsx';
import { Empty, Failure, MissingPage, Page, UnreadPage } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { useAgents, useGo, useRead, useSignedIn } from '../../server/queries.ts';
import type { RequestError } from '../../server/request.ts';
import type { Agent, List, Release, SessionHead } from '../../server/types.ts';
import { Composer } from './composer.tsx';
import { usePlayground } from './use-playground.ts';
import { ViewCode } from './view-code.tsx';
import { Welcome } from './welcome.tsx';

export default function PlaygroundPage() {
  const { data: agents, error, isFetching } = useAgents();
  const { agent: slug } = useParams<{ agent?: string }>();
  const named = agents?.find((each) => each.slug === slug);
  // Never another agent than the address says. One that was made just now may not be in a list that was read before.
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
          command={`curl -s -X POST ${window.location.origin}/api/agents -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '{"slug":"assistant"}'`}
        />
      </Page>
    );
  return <Playground key={agent.slug} agent={agent} agents={agents} />;
}

const railKey = 'parley-rail';

function Playground({ agent, agents }: { agent: Agent; agents: readonly Agent[] }) {
  const go = useGo();
  const { organization } = useSignedIn();
  const query = useQueryState();
  const sessionId = query.read('session');
  const thinking = query.read('thinking') !== 'off';
  const [coding, setCoding] = useState(false);
  const [rail, setRail] = useState(() => (localStorage.getItem(railKey) ?? (window.innerWidth >= 1024 ? 'open' : '')) === 'open');
  const releases = useRead<List<Release>>(`/api/agents/${agent.slug}/releases?limit=50`).data?.data ?? [];
  const head = useRead<{ session: SessionHead }>(`/dashboard/api/sessions/${encodeURIComponent(sessionId)}`, { enabled: sessionId !== '' });
  const base = sessionId === '' ? undefined : managedPath(organization.slug, agent.slug, sessionId);
  const { conversation, events, preview, phase, refusal } = useConversation(base);
  const release = query.read('release');
  const playground = usePlayground({
    org: organization.slug,
    agent: agent.slug,
    sessionId,
    release,
    onSession: (id) => query.write({ session: id }),
  });
  const toggleRail = () => {
    localStorage.setItem(railKey, rail ? '' : 'open');
    setRail(!rail);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    playground.addFiles([...playground.files, ...event.dataTransfer.files]);
  };
  const pinned = head.data?.session.release;
  const { pending, items } = conversation;
  const chosen = releases.find(({ active, version }) => (pinned ? version === pinned : release ? String(version) === release : active));
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
            onChange={(slug) => go(`/playground/${slug}`)}
            options={agents.map(({ slug, name }) => ({ value: slug, label: name }))}
          />
          <ReleaseSelect
            agent={agent}
            releases={releases}
            value={pinned === undefined ? release : String(pinned)}
            isPinned={pinned !== undefined}
            onChange={(version) =>
              go(withQuery(`/playground/${agent.slug}`, { release: version === String(agent.active_version) ? '' : version }))
            }
          />
          <Toggle label="Thinking" checked={thinking} onChange={(next) => query.write({ thinking: next ? '' : 'off' })} />
          <Button kind="quiet" onClick={() => setCoding(true)}>
            <Braces size={15} /> <span className="max-sm:sr-only">View code</span>
          </Button>
          <Button kind="quiet" aria-pressed={rail} onClick={toggleRail}>
            <PanelRight size={15} /> <span className="max-sm:sr-only">Events</span>
          </Button>
          <Button disabled={sessionId === ''} onClick={() => go(withQuery(`/playground/${agent.slug}`, { release }))}>
            <Plus size={15} /> New session
          </Button>
        </>
      }
    >
      <div className="flex min-h-0 flex-1">
        <section
          aria-label="Chat"
          className={`${rail ? 'hidden md:flex' : 'flex'} min-w-0 flex-1 flex-col`}
          onDragOver={(event) => event.preventDefault()}
          onDrop={drop}
        >
          {refusal !== undefined ? (
            <Refused agent={agent} refusal={refusal} />
          ) : sessionId === '' || (phase === 'live' && items.length === 0) ? (
            <Welcome agent={agent} canAnswer={canAnswer} onPick={playground.write} release={chosen} />
          ) : (
            <Transcript conversation={conversation} preview={preview} thinking={thinking}>
              {pending !== undefined && base !== undefined && <ApprovalCard key={pending.requestId} base={base} request={pending} keys />}
            </Transcript>
          )}
          <Composer
            text={playground.text}
            onText={playground.write}
            files={playground.files}
            onFiles={playground.addFiles}
            busy={playground.busy}
            disabled={!canAnswer}
            running={conversation.running}
            onSend={playground.send}
            onStop={playground.stop}
          />
        </section>
        {rail && <Rail sessionId={sessionId} events={events} />}
      </div>
      {coding && (
        <ViewCode
          input={{ origin: window.location.origin, org: organization.slug, agent: agent.slug, text: playground.text }}
          onClose={() => setCoding(false)}
        />
      )}
    </Page>
  );
}

interface ReleaseSelectProps {
  agent: Agent;
  releases: readonly Release[];
  value: string;
  /** The session has its release: there is no "whichever is active" to choose. */
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
    <aside aria-label="Event rail" className="flex min-h-0 w-full flex-col border-line md:w-96 md:border-l">
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
