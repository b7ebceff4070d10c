export interface LoadedOnce<Value> {
  get(): Promise<Value>;
  /** For closing it: undefined if it was never loaded. */
  loaded(): Promise<Value | undefined>;
}

/** Loads something when it is first needed, and keeps it. After a failure, the next `get` tries again. */
export function loadOnce<Value>(load: () => Promise<Value>): LoadedOnce<Value> {
  let loading: Promise<Value> | undefined;
  return {
    get() {
      loading ??= load().catch((error: unknown) => {
        loading = undefined;
        throw error;
      });
      return loading;
    },
    loaded: async () => loading?.catch(() => undefined),
  };
}
