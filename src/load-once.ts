export interface LoadedOnce<Value> {
  get(): Promise<Value>;
  /** For whoever closes it: undefined if it was never asked for, or could not be loaded. */
  loaded(): Promise<Value | undefined>;
}

/** Loads something when it is first asked for, and keeps it. A load that failed is not kept: whoever asks next tries again. */
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
