import { Component, type ComponentType, type ReactNode, useEffect, useState } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Empty, Page, UnreadPage, Waiting } from '../parts/page.tsx';

/**
 * The script of a page, fetched when it is first needed. React's own lazy() would hold back what it reveals for 300 ms
 * once it has shown a fallback: longer than everything else about opening a page together.
 */
export class PageScript {
  component: ComponentType | undefined;
  private readonly fetchModule: () => Promise<{ default: ComponentType }>;
  private loading: Promise<void> | undefined;

  constructor(fetchModule: () => Promise<{ default: ComponentType }>) {
    this.fetchModule = fetchModule;
  }

  /** Begins to fetch it, if nobody has. One that failed is fetched again by the next call. */
  load(): Promise<void> {
    this.loading ??= this.fetchModule().then(
      (module) => {
        this.component = module.default;
      },
      () => {
        this.loading = undefined;
      },
    );
    return this.loading;
  }
}

export function LazyPage({ script }: { script: PageScript }) {
  const [isAnswered, setAnswered] = useState(false);
  const [location] = useLocation();
  useEffect(() => {
    let isLeft = false;
    void script.load().then(() => isLeft || setAnswered(true));
    return () => {
      isLeft = true;
    };
  }, [script]);
  const { component: Loaded } = script;
  if (Loaded !== undefined)
    return (
      <Mishap location={location}>
        <Loaded />
      </Mishap>
    );
  return isAnswered ? <Unloadable /> : <Waiting />;
}

/** A page that cannot be drawn says so, instead of taking the menu with it. */
class Mishap extends Component<{ location: string; children: ReactNode }> {
  override state: { error: Error | undefined } = { error: undefined };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  /** `/sessions/a` and `/sessions/b` are one page: the second may be drawn all the same. */
  override componentDidUpdate(before: { location: string }): void {
    if (before.location !== this.props.location) this.setState({ error: undefined });
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error === undefined ? this.props.children : <UnreadPage title="This page went wrong" error={error} />;
  }
}

/** The usual reason: the server was upgraded while this tab was open, and its scripts have other names now. */
function Unloadable() {
  return (
    <Page title="Reload required">
      <Empty title="This page could not be loaded." text="Parley may have been upgraded since you opened it.">
        <Button kind="primary" onClick={() => window.location.reload()}>
          Reload
        </Button>
      </Empty>
    </Page>
  );
}
