import { type InfiniteData, type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { get } from '../server/request.ts';
import type { List } from '../server/types.ts';
import { Button } from './button.tsx';
import { noLook, noteLook, untilNextLook } from './next-look.ts';

type Pages<Page> = UseInfiniteQueryResult<InfiniteData<Page>, Error>;

/**
 * A list that is read page by page. The first page is read again at the interval while somebody looks at it; once older
 * entries are shown the list stays as it is, since all of its pages would have to be read each time.
 */
export function usePages<Item, Page extends List<Item> = List<Item>>(
  path: string,
  refetchInterval: number | false = false,
): Pages<Page> & { items: Item[] } {
  const looks = useRef(noLook);
  const pages = useInfiniteQuery<Page, Error, InfiniteData<Page>, readonly string[], string>({
    // Apart from a plain reading of the same path: the cache would hand one the other's data.
    queryKey: [path, 'pages'],
    queryFn: async ({ pageParam, signal }) => {
      const separator = path.includes('?') ? '&' : '?';
      const begun = performance.now();
      const page = await get<Page>(pageParam === '' ? path : `${path}${separator}cursor=${encodeURIComponent(pageParam)}`, signal);
      looks.current = noteLook(looks.current, JSON.stringify(page.data), performance.now() - begun);
      return page;
    },
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => {
      if (refetchInterval === false || (state.data?.pages.length ?? 0) > 1) return false;
      return untilNextLook(refetchInterval, looks.current);
    },
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
