import { QueryClientProvider } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Redirect, Route, Router, Switch, useLocation, useSearch } from 'wouter';
import { LinkButton } from './parts/button.tsx';
import { Notices } from './parts/notice.tsx';
import { Empty, Failure, Page, Waiting } from './parts/page.tsx';
import { SecretsShownOnce } from './parts/shown-once.tsx';
import { queryClient, useSession } from './server/queries.ts';
import { RequestError } from './server/request.ts';
import { Banner } from './shell/banner.tsx';
import { Layout } from './shell/layout.tsx';
import { LazyPage, PageScript } from './shell/lazy-page.tsx';
import { ScrollRestoration } from './shell/scroll-restoration.tsx';
import { Join } from './sign-in/join.tsx';
import { SignIn } from './sign-in/sign-in.tsx';
import { SignInAgain } from './sign-in/sign-in-again.tsx';

/** The pages for people who are signed in. The build puts them into one script, which is loaded apart from the rest. */
const pages: readonly { path: string; script: PageScript }[] = [
  { path: '/', script: new PageScript(() => import('./pages/overview/overview.tsx')) },
  { path: '/playground/:agent?', script: new PageScript(() => import('./pages/playground/playground.tsx')) },
  { path: '/sessions', script: new PageScript(() => import('./pages/sessions/sessions.tsx')) },
  { path: '/sessions/:id', script: new PageScript(() => import('./pages/sessions/session.tsx')) },
  { path: '/approvals', script: new PageScript(() => import('./pages/approvals/approvals.tsx')) },
  { path: '/agents', script: new PageScript(() => import('./pages/agents/agents.tsx')) },
  { path: '/agents/:slug', script: new PageScript(() => import('./pages/agents/agent.tsx')) },
  { path: '/webhooks', script: new PageScript(() => import('./pages/webhooks/webhooks.tsx')) },
  { path: '/webhooks/:id', script: new PageScript(() => import('./pages/webhooks/endpoint.tsx')) },
  { path: '/keys', script: new PageScript(() => import('./pages/keys/keys.tsx')) },
  { path: '/usage', script: new PageScript(() => import('./pages/usage/usage.tsx')) },
  { path: '/audit', script: new PageScript(() => import('./pages/audit/audit.tsx')) },
  { path: '/settings/:section?', script: new PageScript(() => import('./pages/settings/settings.tsx')) },
];

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <Router base="/dashboard">
        <Switch>
          <Route path="/sign-in" component={SignIn} />
          <Route path="/join" component={Join} />
          <Route>
            <SignedInApp />
          </Route>
        </Switch>
      </Router>
      <SecretsShownOnce />
      <Notices />
    </QueryClientProvider>
  );
}

/** Everything behind the login: asks the server who is signed in, and shows the page at this URL or the way to sign in. */
function SignedInApp() {
  const [location] = useLocation();
  // Loads the script of all pages while the server is asked who is signed in.
  useEffect(() => void pages[0]?.script.load(), []);
  const search = useSearch();
  const session = useSession();
  // Set when the login has ended and the person prefers to leave the page rather than sign in again over it.
  const [hasLeft, setLeft] = useState(false);
  const isSignedOut = session.error instanceof RequestError && session.error.status === 401;
  if (isSignedOut && (hasLeft || session.data === undefined)) {
    const here = search === '' ? location : `${location}?${search}`;
    return <Redirect to={here === '/' ? '/sign-in' : `/sign-in?next=${encodeURIComponent(here)}`} replace />;
  }
  if (session.data === undefined)
    return (
      <>
        <Banner />
        <main className="mx-auto max-w-xl p-6">{session.error === null ? <Waiting /> : <Failure error={session.error} />}</main>
      </>
    );
  return (
    <Layout>
      {isSignedOut && <SignInAgain email={session.data.user.email} onLeave={() => setLeft(true)} />}
      <ScrollRestoration location={location} search={search} />
      <Switch>
        {pages.map(({ path, script }) => (
          <Route key={path} path={path}>
            <LazyPage script={script} />
          </Route>
        ))}
        <Route>
          <Page title="Not found">
            <Empty title="There is no page at this URL." text="It may have been moved; the menu lists every page.">
              <LinkButton to="/">Go to the overview</LinkButton>
            </Empty>
          </Page>
        </Route>
      </Switch>
    </Layout>
  );
}
