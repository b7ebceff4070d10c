import { Component, type ComponentType, type ReactNode, useEffect, useState } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Empty, Page, UnreadPage, Waiting } from '../parts/page.tsx';

/**
 * The script of a page, loaded when it is first needed. It does the work of React's `lazy`, which would delay the page by 300 ms
 * once its fallback was shown: more than everything else about opening a page takes together.
 */
export class PageScript {
  component: ComponentType | undefined;
  private readonly fetchModule: () => Promise<{ default: ComponentType }>;
  private loading: Promise<void> | undefined;

  constructor(fetchModule: () => Promise<{ default: ComponentType }>) {
    this.fetchModule = fetchModule;
  }

  /** Loads it once; after a failure, the next call tries again. Never rejects: without `component` it has failed. */
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
  const [hasSettled, setSettled] = useState(false);
  const [location] = useLocation();
  useEffect(() => {
    let isUnmounted = false;
    void script.load().then(() => isUnmounted || setSettled(true));
    return () => {
      isUnmounted = true;
    };
  }, [script]);
  const { component: Loaded } = script;
  if (Loaded !== undefined)
    return (
      <ErrorBoundary location={location}>
        <Loaded />
      </ErrorBoundary>
    );
  return hasSettled ? <ReloadRequired /> : <Waiting />;
}

/** When rendering the page throws, shows the error in its place; without it React would remove the whole dashboard. */
class ErrorBoundary extends Component<{ location: string; children: ReactNode }> {
  override state: { error: Error | undefined } = { error: undefined };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  /** `/sessions/a` and `/sessions/b` share one boundary: the error of the first must not hide the second. */
  override componentDidUpdate(before: { location: string }): void {
    if (before.location !== this.props.location) this.setState({ error: undefined });
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error === undefined ? this.props.children : <UnreadPage title="This page went wrong" error={error} />;
  }
}

/** Usually the server was upgraded while this tab was open, and the scripts have other names now. */
function ReloadRequired() {
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
