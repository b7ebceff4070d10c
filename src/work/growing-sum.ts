/** The sum over a list that only grows at its end: each call adds up no more than what has come since the last one for that list. */
export function growingSum<Item>(measure: (item: Item) => number): (list: readonly Item[]) => number {
  const sums = new WeakMap<readonly Item[], { counted: number; sum: number }>();
  return (list) => {
    const known = sums.get(list) ?? { counted: 0, sum: 0 };
    for (const item of list.slice(known.counted)) known.sum += measure(item);
    known.counted = list.length;
    sums.set(list, known);
    return known.sum;
  };
}
