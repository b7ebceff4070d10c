import { type InfiniteData, type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { intervalAfter } from '../server/queries.ts';
import { get } from '../server/request.ts';
import type { List } from '../server/types.ts';
import { Button } from './button.tsx';
import { notifyError } from './notice.tsx';
import { noPoll, notePoll, pollInterval } from './poll-interval.ts';
import { useWhileShown } from './while-shown.ts';

type Pages<Page> = UseInfiniteQueryResult<InfiniteData<Page>, Error>;

/**
 * A list that is read page by page. While only the first page is shown, it is read again at the interval, or less often (see
 * `pollInterval`). Once more pages are shown the list is not refreshed, unless doing so failed, since each time all of them would have to be read.
 */
export function usePages<Item, Page extends List<Item> = List<Item>>(
  path: string,
  refetchInterval: number | false = false,
): Pages<Page> & { items: Item[] } {
  const poll = useRef(noPoll);
  const pages = useInfiniteQuery<Page, Error, InfiniteData<Page>, readonly string[], string>({
    // Not the key of `useRead` for the same path, whose data has another shape.
    queryKey: [path, 'pages'],
    queryFn: async ({ pageParam, signal }) => {
      const separator = path.includes('?') ? '&' : '?';
      const begun = performance.now();
      const page = await get<Page>(pageParam === '' ? path : `${path}${separator}cursor=${encodeURIComponent(pageParam)}`, signal);
      poll.current = notePoll(poll.current, JSON.stringify(page.data), performance.now() - begun);
      return page;
    },
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => {
      const isLong = (state.data?.pages.length ?? 0) > 1;
      // Only the next page could not be read, which the button asks for again: after too many requests these would be many more.
      if (isLong && state.fetchMeta?.fetchMore !== undefined) return false;
      if (isLong || refetchInterval === false) return intervalAfter(state.error);
      return pollInterval(refetchInterval, poll.current);
    },
  });
  return { ...pages, items: pages.data?.pages.flatMap((page) => page.data) ?? [] };
}

/** The button that reads the next page of a list. Why it failed is at the top of the list, and so out of view: it is said here too. */
export function More({
  pages,
  label = 'Show more',
}: {
  pages: Pick<Pages<unknown>, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>;
  label?: string;
}) {
  // Leaving the list ends the read, and what is then told may be why the one before had failed.
  const say = useWhileShown(notifyError);
  if (!pages.hasNextPage) return null;
  const read = async () => {
    const { error } = await pages.fetchNextPage();
    if (error !== null) say(error);
  };
  return (
    <div className="mt-3 text-center">
      <Button disabled={pages.isFetchingNextPage} onClick={() => void read()}>
        {label}
      </Button>
    </div>
  );
}
