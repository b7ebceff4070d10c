import { type UseMutationResult, useIsMutating, useMutation } from '@tanstack/react-query';
import { notify, notifyError } from '../../parts/notice.tsx';
import { postOnce, untilAnswered } from '../../server/post-once.ts';
import { refresh } from '../../server/queries.ts';
import { get } from '../../server/request.ts';
import type { Release } from '../../server/types.ts';
import { isUnfinished } from './release-facts.ts';

/**
 * Activates a release as soon as it is materialized. One that failed is not activated: the agent could no longer answer.
 * The wait goes on when the person turns to another page, but not after the tab is closed.
 */
export function useActivation(releasesPath: string): UseMutationResult<Release, Error, Release> {
  return useMutation({
    mutationKey: [releasesPath],
    mutationFn: async ({ version }: Release) => {
      for (;;) {
        const { release } = await untilAnswered(() => get<{ release: Release }>(`${releasesPath}/${version}`));
        if (release.state === 'materialized') await postOnce(`${releasesPath}/${version}/activate`, {});
        if (!isUnfinished(release)) return release;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    },
    onSuccess: async ({ version, state, error }) => {
      if (state === 'failed') notify(`Release ${version} failed and was not activated: ${error}`, true);
      else notify(`Release ${version} is active.`);
      await refresh('/api/agents');
    },
    onError: notifyError,
  });
}

/** Whether `useActivation` is waiting for one of these releases, or activating it. */
export function useIsActivating(releasesPath: string): boolean {
  return useIsMutating({ mutationKey: [releasesPath] }) > 0;
}
