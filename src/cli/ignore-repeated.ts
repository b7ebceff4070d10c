/**
 * Called at a signal that the program handles. Under npm, one Ctrl-C arrives twice, from the terminal and from npm: the second is ignored
 * for a moment. After that, a signal ends the program as it does otherwise.
 */
export function ignoreRepeated(signals: readonly NodeJS.Signals[]): void {
  const ignore = () => {};
  for (const signal of signals) process.on(signal, ignore);
  setTimeout(() => {
    for (const signal of signals) process.off(signal, ignore);
  }, 1_000).unref();
}
