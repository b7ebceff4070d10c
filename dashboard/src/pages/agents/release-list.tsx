import { useMutation } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { Link } from 'wouter';
import { Badge, State } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { count } from '../../parts/format.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Time } from '../../parts/time.tsx';
import { refresh } from '../../server/queries.ts';
import { post } from '../../server/request.ts';
import type { Agent, Release } from '../../server/types.ts';
import { modelOf } from './release-facts.ts';

/** How many sessions are pinned to a release: they stay on it when another one becomes active. */
export interface ReleasePins {
  version: number;
  sessions: number;
}

interface ReleaseListProps {
  agent: Agent;
  releases: readonly Release[];
  /** Undefined until they have been read. */
  pins: readonly ReleasePins[] | undefined;
  mayActivate: boolean;
}

export function ReleaseList({ agent, releases, pins, mayActivate }: ReleaseListProps) {
  const [asking, setAsking] = useState<Release>();
  const activate = useMutation({
    mutationFn: (version: number) => post(`/api/agents/${agent.slug}/releases/${version}/activate`),
    onSuccess: async (_answer, version) => {
      setAsking(undefined);
      notify(version === agent.active_version ? `Release ${version} is being materialized again.` : `Release ${version} is active.`);
      await refresh('/api/agents');
    },
    onError: notifyError,
  });
  const isRollback = (release: Release) => agent.active_version !== null && release.version < agent.active_version;
  return (
    <div className="panel overflow-hidden">
      <table className="grid-table">
        <thead>
          <tr>
            <th>Release</th>
            <th className="max-md:hidden">Model</th>
            <th className="number">
              Sessions<span className="max-sm:hidden"> pinned</span>
            </th>
            <th className="number max-sm:hidden">Created</th>
            <th>
              <span className="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {releases.map((release) => (
            <Fragment key={release.version}>
              <tr className={release.error === null ? '' : '[&>td]:border-b-0'}>
                <td>
                  <span className="flex flex-wrap items-center gap-2">
                    <Link
                      to={`/agents/${agent.slug}?tab=edit&from=${release.version}`}
                      className="font-medium whitespace-nowrap hover:text-accent"
                    >
                      Release {release.version}
                    </Link>
                    {release.active && <Badge tone="accent">active</Badge>}
                    {release.state !== 'materialized' && <State name={release.state} />}
                  </span>
                </td>
                <td className="max-w-56 truncate text-dim max-lg:max-w-28 max-md:hidden" title={modelOf(release.config)}>
                  {modelOf(release.config)}
                </td>
                <td className="number">
                  <Link to={`/sessions?agent=${agent.slug}&release=${release.version}`} className="text-dim hover:text-accent">
                    {pins === undefined ? '–' : count(pins.find(({ version }) => version === release.version)?.sessions ?? 0)}
                    <span className="sr-only"> sessions on release {release.version}</span>
                  </Link>
                </td>
                <td className="number text-dim max-sm:hidden">
                  <Time at={release.created_at} />
                </td>
                <td className="number">
                  {mayActivate && release.active && release.state === 'failed' && (
                    <Button className="-my-1" disabled={activate.isPending} onClick={() => activate.mutate(release.version)}>
                      Try again
                    </Button>
                  )}
                  {mayActivate && !release.active && (
                    <Button className="-my-1" onClick={() => setAsking(release)}>
                      {isRollback(release) ? 'Roll back' : 'Activate'}
                      <span className="sr-only">
                        {isRollback(release) && ' to'} release {release.version}
                      </span>
                    </Button>
                  )}
                </td>
              </tr>
              {release.error !== null && (
                <tr>
                  <td colSpan={5} className="!pt-0 text-[0.92em] text-bad [overflow-wrap:anywhere]">
                    {release.error}{' '}
                    {mayActivate && release.error.startsWith('credentials:') && (
                      <Link to="/settings/models" className="underline underline-offset-2">
                        Store a key
                      </Link>
                    )}
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
      {asking !== undefined && (
        <Confirm
          title={isRollback(asking) ? `Roll back to release ${asking.version}?` : `Activate release ${asking.version}?`}
          text={`New sessions of ${agent.name} will use it. Existing sessions stay on the release they were created with.${asking.state === 'materialized' ? '' : ' It is not materialized: until it is, new sessions and turns are refused.'}`}
          action={isRollback(asking) ? 'Roll back' : 'Activate'}
          kind="primary"
          busy={activate.isPending}
          onConfirm={() => activate.mutate(asking.version)}
          onClose={() => setAsking(undefined)}
        />
      )}
    </div>
  );
}
