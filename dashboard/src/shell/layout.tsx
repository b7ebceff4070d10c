import { Menu, X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { flushSync } from 'react-dom';
import { Link, useLocation } from 'wouter';
import { IconButton } from '../parts/button.tsx';
import { useRead } from '../server/queries.ts';
import { AccountMenu } from './account-menu.tsx';
import { Banner } from './banner.tsx';
import { destinations } from './destinations.ts';
import { Shortcuts } from './shortcuts.tsx';

/** The frame of every page: banner, main menu and content. */
export function Layout({ children }: { children: ReactNode }) {
  const [location] = useLocation();
  // On a phone the menu covers the page. It is open on the page that it was opened on, and so not after Back.
  const [openAt, setOpenAt] = useState<string>();
  const open = openAt === location;
  if (openAt !== undefined && !open) setOpenAt(undefined);
  // Before the link leads anywhere, and also where it leads nowhere else: what is covered can neither be scrolled nor focused.
  const closeMenu = () => {
    if (!open) return;
    flushSync(() => setOpenAt(undefined));
    document.getElementById('content')?.focus({ preventScroll: true });
  };
  return (
    <div className="flex h-dvh flex-col">
      <a href="#content" className="sr-only focus:not-sr-only focus:fixed focus:z-50 focus:m-2 focus:rounded-md focus:bg-panel focus:p-2">
        Skip to content
      </a>
      <Banner />
      <div className="flex min-h-0 flex-1 flex-col md:flex-row">
        {/* No box of its own: both parts, of which a large screen shows one, belong to it for screen readers. */}
        <header className="contents">
          <div className="flex items-center border-b border-line px-3 py-1.5 md:hidden">
            <Wordmark onFollow={closeMenu} />
            <IconButton
              label={open ? 'Close menu' : 'Open menu'}
              aria-expanded={open}
              className="ml-auto"
              onClick={() => setOpenAt(open ? undefined : location)}
            >
              {open ? <X size={18} /> : <Menu size={18} />}
            </IconButton>
          </div>
          <div
            className={`${open ? 'flex' : 'hidden'} min-h-0 flex-1 flex-col overflow-y-auto border-line bg-sunken md:flex md:w-52 md:flex-none md:border-r`}
          >
            <div className="hidden px-4 pt-4 pb-2 md:block">
              <Wordmark onFollow={closeMenu} />
            </div>
            <Navigation location={location} onFollow={closeMenu} />
            <div className="mt-auto">
              <AccountMenu />
            </div>
          </div>
        </header>
        <main id="content" tabIndex={-1} className={`${open ? 'hidden md:block' : ''} min-h-0 min-w-0 flex-1 overflow-y-auto outline-none`}>
          {children}
        </main>
      </div>
      <Shortcuts />
    </div>
  );
}

function Wordmark({ onFollow }: { onFollow(): void }) {
  return (
    <Link to="/" onClick={onFollow} className="inline-flex items-center gap-2 font-semibold tracking-tight">
      <img src="/dashboard/icon.svg" alt="" className="size-5" />
      Parley
    </Link>
  );
}

function Navigation({ location, onFollow }: { location: string; onFollow(): void }) {
  const { data } = useRead<{ pending: number }>('/dashboard/api/approvals/count', { refetchInterval: 5_000 });
  return (
    <nav aria-label="Main" className="px-2 pb-3">
      {destinations.map((group) => (
        <ul key={group[0]?.path} className="mt-3 flex flex-col gap-px">
          {group.map(({ path, label, icon: Icon }) => {
            const current = path === '/' ? location === '/' : location === path || location.startsWith(`${path}/`);
            return (
              <li key={path}>
                <Link
                  to={path}
                  onClick={onFollow}
                  aria-current={current ? 'page' : undefined}
                  className={`flex items-center gap-2.5 rounded-md px-2 py-1.5 ${current ? 'bg-tint font-medium text-accent' : 'text-dim hover:bg-hover hover:text-ink'}`}
                >
                  <Icon size={15} strokeWidth={1.8} aria-hidden />
                  {label}
                  {path === '/approvals' && data !== undefined && data.pending > 0 && (
                    <span className="ml-auto rounded-sm bg-warn-tint px-1.5 text-[0.88em] font-medium text-warn">
                      {data.pending}
                      <span className="sr-only"> waiting</span>
                    </span>
                  )}
                </Link>
              </li>
            );
          })}
        </ul>
      ))}
    </nav>
  );
}
