import { useEffect, useState } from 'react';
import { Select, Toggle } from '../../parts/field.tsx';
import { FirstMessage } from '../../parts/first-message.tsx';
import { More, usePages } from '../../parts/more.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { useAgents } from '../../server/queries.ts';
import type { SessionRow } from '../../server/types.ts';
import { sessionStates, surfaces } from '../../server/values.ts';
import { SessionTable } from './session-table.tsx';

export default function SessionsPage() {
  const query = useQueryState();
  const agents = useAgents().data ?? [];
  const isLive = query.read('live') !== 'off';
  const filters = {
    agent: query.read('agent'),
    state: query.read('state'),
    surface: query.read('surface'),
    release: query.read('release'),
    q: query.read('q'),
  };
  const pages = usePages<SessionRow>(withQuery('/dashboard/api/sessions', { ...filters, limit: 50 }), isLive ? 2_000 : false);
  // Once a second page is shown, `usePages` no longer refreshes the list.
  const isPaused = (pages.data?.pages.length ?? 0) > 1;
  // The server looks through a limited number of sessions for each page: one with few matches, or none, may be followed by
  // more. Read on until there are enough of them. Not for failures: who watches for them needs a list that stays live.
  const { hasNextPage, isFetching, fetchNextPage } = pages;
  const isWatching = filters.state === 'failed';
  const isSearching = !isWatching && pages.items.length < 50 && hasNextPage && pages.error === null;
  useEffect(() => {
    if (isSearching && !isFetching) void fetchNextPage();
  }, [isSearching, isFetching, fetchNextPage]);
  const further = isWatching ? 'Look through older sessions' : 'Show more';
  const isFiltered = Object.values(filters).some((value) => value !== '');
  return (
    <Page
      title="Sessions"
      {...(isLive && isPaused ? { aside: 'not live while older ones are shown' } : {})}
      actions={<Toggle label="Live" checked={isLive} onChange={(next) => query.write({ live: next ? '' : 'off' })} />}
    >
      <div className="filters">
        <SearchField value={filters.q} onChange={(q) => query.write({ q })} />
        <Select
          label="Agent"
          value={filters.agent}
          onChange={(agent) => query.write({ agent, release: '' })}
          options={[{ value: '', label: 'Any agent' }, ...agents.map(({ slug, name }) => ({ value: slug, label: name }))]}
        />
        <Select
          label="State"
          value={filters.state}
          onChange={(state) => query.write({ state })}
          options={[
            { value: '', label: 'Any state' },
            ...sessionStates.map((value) => ({ value, label: value === 'failed' ? 'last turn failed' : value })),
          ]}
        />
        <Select
          label="Surface"
          value={filters.surface}
          onChange={(surface) => query.write({ surface })}
          options={[{ value: '', label: 'Any surface' }, ...surfaces.map((value) => ({ value, label: value }))]}
        />
        {isFiltered && (
          <button
            type="button"
            className="px-1 text-left text-accent hover:underline"
            onClick={() => query.write({ agent: '', state: '', surface: '', release: '', q: '' })}
          >
            {filters.release === '' ? 'Clear' : `Release ${filters.release} only. Clear`}
          </button>
        )}
      </div>
      {pages.error !== null && <Failure error={pages.error} />}
      {pages.isPending ? (
        <Waiting />
      ) : pages.items.length > 0 ? (
        <>
          <SessionTable sessions={pages.items} />
          {isSearching ? <Waiting what="Looking through older sessions" /> : <More pages={pages} label={further} />}
        </>
      ) : isSearching ? (
        <Waiting what="Looking through older sessions" />
      ) : isWatching && hasNextPage ? (
        <>
          <Empty title="None of the latest sessions failed in its last turn." />
          <More pages={pages} label={further} />
        </>
      ) : pages.error !== null ? null : isFiltered ? (
        <Empty title="No matching sessions." {...(filters.q === '' ? {} : { text: 'Search for a complete session id or end user id.' })} />
      ) : (
        <FirstMessage title="No sessions yet." text="The first message through any API creates one." />
      )}
    </Page>
  );
}

/** Searches when typing pauses, not at every letter. */
function SearchField({ value, onChange }: { value: string; onChange(value: string): void }) {
  const [text, setText] = useState(value);
  // Takes over a new value from the address, but keeps the blank at the end of what is being typed.
  useEffect(() => setText((typed) => (typed.trim() === value ? typed : value)), [value]);
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => onChange(text.trim()), 250);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <input
      data-search
      type="search"
      aria-label="Session or end user id"
      placeholder="Session or user id"
      value={text}
      onChange={(event) => setText(event.target.value)}
      className="input flex-1 sm:!w-auto sm:min-w-48 sm:!max-w-xs"
    />
  );
}
