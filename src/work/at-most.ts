/**
 * For an `LRUCache` of at most this many entries, which grows with them. With the cache's own option `max` it would reserve memory for all
 * of them at each start, which takes 17 ms for 100,000.
 */
export const atMost = (entries: number): { maxSize: number; sizeCalculation: () => number } => ({
  maxSize: entries,
  sizeCalculation: () => 1,
});
