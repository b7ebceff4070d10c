import { TerminalSquare } from 'lucide-react';
import { useParams } from 'wouter';
import { LinkButton } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { More, usePages } from '../../parts/more.tsx';
import { Empty, Failure, MissingPage, Page, Unread, UnreadPage, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { Tabs } from '../../parts/tabs.tsx';
import { useMay, useRead, useSignedIn } from '../../server/queries.ts';
import { RequestError } from '../../server/request.ts';
import type { Agent, Release } from '../../server/types.ts';
import { ChangeAgent } from './change-agent.tsx';
import { ConfigEditor } from './config-editor.tsx';
import { ConfigDiff } from './diff.tsx';
import { isUnfinished } from './release-facts.ts';
import { ReleaseList, type ReleasePins } from './release-list.tsx';
import { ReleaseView } from './release-view.tsx';
import { useIsActivating } from './use-activation.ts';
import { WidgetButton } from './widget.tsx';

export default function AgentPage() {
  const { slug = '' } = useParams<{ slug: string }>();
  const { data, error } = useRead<{ agent: Agent }>(`/api/agents/${encodeURIComponent(slug)}`);
  if (error instanceof RequestError && error.status === 404)
    return <MissingPage title="Agent" text="There is no agent with this name." to="/agents" all="All agents" />;
  if (data === undefined) return <UnreadPage title="Agent" error={error} />;
  return <AgentReleases key={data.agent.id} agent={data.agent} />;
}

function AgentReleases({ agent }: { agent: Agent }) {
  const { organization } = useSignedIn();
  const mayRelease = useMay('releases:write');
  const mayChangeAgent = useMay('agents:write');
  const query = useQueryState();
  const path = `/api/agents/${agent.slug}/releases`;
  const pages = usePages<Release>(`${path}?limit=50`, 5_000);
  const isActivating = useIsActivating(path);
  const pins = useRead<{ data: ReleasePins[] }>(`/dashboard/api/agents/${agent.slug}/pins`, { refetchInterval: 30_000 });
  const releases = pages.items;
  const active = releases.find((release) => release.active);
  const from = query.read('from');
  // The release that the editor starts from may be older than the listed ones; then it is read on its own.
  const sourceVersion = from === '' ? String(active?.version ?? agent.active_version ?? '') : from;
  const listed = releases.find((release) => String(release.version) === sourceVersion);
  const unlisted = useRead<{ release: Release }>(`${path}/${encodeURIComponent(sourceVersion)}`, {
    enabled: pages.isSuccess && listed === undefined && sourceVersion !== '',
  });
  const source = listed ?? unlisted.data?.release ?? active ?? releases[0];
  const tabs = [
    { value: 'releases', label: 'Releases' },
    ...(mayRelease || source !== undefined ? [{ value: 'edit', label: mayRelease ? 'New release' : 'Configuration' }] : []),
    ...(releases.length > 1 ? [{ value: 'diff', label: 'Compare' }] : []),
  ];
  const { value: tab } = tabs.find(({ value }) => value === query.read('tab')) ?? { value: 'releases' };
  return (
    <Page
      title={agent.name}
      aside={<CopyId value={`${organization.slug}/${agent.slug}`} />}
      actions={
        <>
          <LinkButton to={`/playground/${agent.slug}`}>
            <TerminalSquare size={15} /> Playground
          </LinkButton>
          <WidgetButton agent={agent} />
          {mayChangeAgent && <ChangeAgent agent={agent} />}
        </>
      }
    >
      {agent.description !== '' && <p className="-mt-3 mb-4 text-dim [overflow-wrap:anywhere]">{agent.description}</p>}
      <div className="mb-4 border-b border-line pb-2">
        <Tabs
          label="Releases"
          value={tab}
          onChange={(next) => query.write({ tab: next === 'releases' ? '' : next, from: '', a: '', b: '' })}
          tabs={tabs}
        />
      </div>
      {pages.error !== null && <Failure error={pages.error} />}
      {pages.isPending || (tab === 'edit' && unlisted.isLoading) ? (
        <Waiting />
      ) : tab === 'edit' && !mayRelease && source !== undefined ? (
        <ReleaseView release={source} />
      ) : tab === 'edit' ? (
        <ConfigEditor key={from} agent={agent} source={source} from={from} onCreated={() => query.write({ tab: '', from: '' })} />
      ) : tab === 'diff' ? (
        <ConfigDiff releases={releases} />
      ) : releases.length === 0 ? (
        <Empty
          title="No release yet."
          text="A release defines the agent: instructions, model, tools and rules. Create one under New release, or:"
          command={curlCommand('POST', path, { instructions: 'Answer briefly.', model: { provider: 'offline' }, activate: true })}
        />
      ) : (
        <>
          <Unread what="How many sessions are pinned" query={pins} />
          <ReleaseList agent={agent} releases={releases} pins={pins.data?.data} mayActivate={mayRelease} />
          {releases.some(isUnfinished) && (
            <p className="mt-2 text-dim" role="status">
              Materializing: connecting to its MCP servers and pinning their tools.
              {isActivating && ' It becomes active once that is done, if this tab stays open.'}
            </p>
          )}
          <More pages={pages} />
        </>
      )}
    </Page>
  );
}
