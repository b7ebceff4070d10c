import { type InfiniteData, type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
import { get } from '../server/request.ts';
import type { List } from '../server/types.ts';
import { Button } from './button.tsx';

type Pages<Page> = UseInfiniteQueryResult<InfiniteData<Page>, Error>;

/**
 * A list that is read page by page. The first page is read again at the interval while somebody looks at it; once older
 * entries are shown the list stays as it is, since all of its pages would have to be read each time.
 */
export function usePages<Item, Page extends List<Item> = List<Item>>(
  path: string,
  refetchInterval: number | false = false,
): Pages<Page> & { items: Item[] } {
  const pages = useInfiniteQuery<Page, Error, InfiniteData<Page>, readonly string[], string>({
    queryKey: [path],
    queryFn: ({ pageParam, signal }) => {
      const separator = path.includes('?') ? '&' : '?';
      return get<Page>(pageParam === '' ? path : `${path}${separator}cursor=${encodeURIComponent(pageParam)}`, signal);
    },
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : refetchInterval),
  });
  return { ...pages, items: pages.data?.pages.flatMap((page) => page.data) ?? [] };
}

export function More({ pages }: { pages: Pick<Pages<unknown>, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'> }) {
  if (!pages.hasNextPage) return null;
  return (
    <div className="mt-3 text-center">
      <Button disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        Show more
      </Button>
    </div>
  );
}
