import { useSignedIn } from '../server/queries.ts';

/**
 * Where this tab stores what is written and not sent yet, so that it outlives a reload and a login that ends. Under whose it is: somebody
 * else may sign in next.
 */
export function useDraftKey(what: string): string {
  const { user, organization } = useSignedIn();
  return `${prefixOf(user.id)}${organization.slug} ${what}`;
}

export function removeDraftsOf(userId: string): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(prefixOf(userId))) sessionStorage.removeItem(key);
}

function prefixOf(userId: string): string {
  return `parley-draft ${userId} `;
}
