import { useMutation } from '@tanstack/react-query';
import { ChevronsUpDown } from 'lucide-react';
import { useRef, useState } from 'react';
import { removeDraftsOf } from '../parts/drafts.ts';
import { leaveForGood } from '../parts/leave-for-good.ts';
import { notifyError } from '../parts/notice.tsx';
import { queryClient, useSignedIn } from '../server/queries.ts';
import { chooseOrganization, post } from '../server/request.ts';
import { ChangePassword } from './change-password.tsx';
import { type Theme, useTheme } from './theme.ts';

const themes: readonly Theme[] = ['system', 'light', 'dark'];

/** The menu of the signed-in person: their orgs, the theme, the documentation, the password and signing out. */
export function AccountMenu() {
  const { user, organization, organizations, role } = useSignedIn();
  const [theme, setTheme] = useTheme();
  const [changing, setChanging] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const signOut = useMutation({
    mutationFn: () => post('/auth/sign-out'),
    onSuccess: () => {
      chooseOrganization(null);
      removeDraftsOf(user.id);
      queryClient.clear();
      // Drawn again meanwhile, the page would miss who is signed in.
      return leaveForGood('/dashboard/sign-in');
    },
    onError: notifyError,
  });
  return (
    <div className="relative p-2">
      <button
        type="button"
        popoverTarget="account-menu"
        className="flex w-full items-center gap-2 rounded-md px-2 py-1.5 text-left hover:bg-hover"
      >
        <span className="min-w-0 flex-1">
          <span className="block truncate font-medium">{organization.name}</span>
          <span className="block truncate text-[0.9em] text-dim">{user.email}</span>
        </span>
        <ChevronsUpDown size={14} className="shrink-0 text-faint" aria-hidden />
      </button>
      <div
        id="account-menu"
        ref={menu}
        popover="auto"
        className="fixed inset-auto bottom-16 left-2 m-0 max-h-[calc(100dvh-5rem)] w-60 overflow-y-auto rounded-lg border border-line bg-panel p-2 text-ink shadow-float"
      >
        <p className="px-2 pt-1 text-[0.92em] [overflow-wrap:anywhere] text-dim">
          {user.name}, {role}
        </p>
        {organizations.length > 1 && (
          <div className="mt-2 border-t border-line pt-2">
            {organizations.map(({ slug, name }) => (
              <button
                key={slug}
                type="button"
                aria-current={slug === organization.slug}
                className={`block w-full rounded-md px-2 py-1.5 text-left [overflow-wrap:anywhere] hover:bg-hover ${slug === organization.slug ? 'font-medium text-accent' : ''}`}
                onClick={() => {
                  chooseOrganization(slug);
                  window.location.assign('/dashboard/');
                }}
              >
                {name}
              </button>
            ))}
          </div>
        )}
        <fieldset className="my-2 flex gap-1 border-y border-line py-2">
          <legend className="sr-only">Colors</legend>
          {themes.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={theme === name}
              onClick={() => setTheme(name)}
              className="flex-1 rounded-md py-1 capitalize hover:bg-hover aria-pressed:bg-tint aria-pressed:text-accent"
            >
              {name}
            </button>
          ))}
        </fieldset>
        <a href="/docs" className="block rounded-md px-2 py-1.5 hover:bg-hover">
          Documentation
        </a>
        <a href="/docs/api" className="block rounded-md px-2 py-1.5 hover:bg-hover">
          API reference
        </a>
        <button
          type="button"
          className="block w-full rounded-md px-2 py-1.5 text-left hover:bg-hover"
          onClick={() => {
            // First, so that the focus is on the menu's button when the dialog opens: closing the dialog returns it there.
            menu.current?.hidePopover();
            setChanging(true);
          }}
        >
          Change password
        </button>
        <button type="button" className="block w-full rounded-md px-2 py-1.5 text-left hover:bg-hover" onClick={() => signOut.mutate()}>
          Sign out
        </button>
      </div>
      {changing && <ChangePassword onClose={() => setChanging(false)} />}
    </div>
  );
}
