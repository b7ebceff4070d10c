export interface DiffLine {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

/**
 * Compares two texts line by line. Lines that both have at the start or at the end are set aside first: the comparison of
 * the rest takes time and memory in proportion to the product of the two lengths.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  return [
    ...same(a.slice(0, head)),
    ...diffMiddle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...same(a.slice(a.length - tail)),
  ];
}

function same(lines: string[]): DiffLine[] {
  return lines.map((text) => ({ kind: 'same', text }));
}

function diffMiddle(a: string[], b: string[]): DiffLine[] {
  // The length of the longest common subsequence of `a` from line `row` on and `b` from line `column` on.
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = a.length - 1; row >= 0; row -= 1)
    for (let column = b.length - 1; column >= 0; column -= 1)
      lengths[row * width + column] =
        a[row] === b[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < a.length || column < b.length) {
    const left = a[row];
    const right = b[column];
    if (left !== undefined && left === right) {
      lines.push({ kind: 'same', text: left });
      row += 1;
      column += 1;
    } else if (left !== undefined && (right === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: 'removed', text: left });
      row += 1;
    } else {
      lines.push({ kind: 'added', text: right ?? '' });
      column += 1;
    }
  }
  return lines;
}

/** The changed lines with a few lines around them; null stands for the lines left out in between. */
export function condense(lines: readonly DiffLine[], around = 3): (DiffLine | null)[] {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'));
  const shown: (DiffLine | null)[] = [];
  lines.forEach((line, index) => {
    if (near[index]) shown.push(line);
    else if (shown.at(-1) !== null) shown.push(null);
  });
  return shown;
}
