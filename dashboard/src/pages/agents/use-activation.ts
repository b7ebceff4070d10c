import { type UseMutationResult, useIsMutating, useMutation } from '@tanstack/react-query';
import { notify, notifyError } from '../../parts/notice.tsx';
import { postOnce, untilAnswered } from '../../server/post-once.ts';
import { forget } from '../../server/queries.ts';
import { get } from '../../server/request.ts';
import type { Release } from '../../server/types.ts';
import { isUnfinished } from './release-facts.ts';

/** Activates a release once it can run: one that failed would take the agent down. Other pages may be looked at meanwhile. */
export function useActivation(path: string): UseMutationResult<Release, Error, Release> {
  return useMutation({
    mutationKey: [path],
    mutationFn: async ({ version }: Release) => {
      for (;;) {
        const { release } = await untilAnswered(() => get<{ release: Release }>(`${path}/${version}`));
        if (release.state === 'materialized') await postOnce(`${path}/${version}/activate`, {});
        if (!isUnfinished(release)) return release;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    },
    onSuccess: async ({ version, state, error }) => {
      if (state === 'failed') notify(`Release ${version} failed and was not activated: ${error}`, true);
      else notify(`Release ${version} is active.`);
      await forget('/api/agents');
    },
    onError: notifyError,
  });
}

/** Whether one is waited for. */
export function useIsActivating(path: string): boolean {
  return useIsMutating({ mutationKey: [path] }) > 0;
}
