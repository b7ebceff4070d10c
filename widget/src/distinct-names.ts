/** An upload replaces the one of the same name, and all pictures that are pasted have the same: the second gets another one. */
export function withDistinctNames(files: readonly File[]): File[] {
  const taken = new Set<string>();
  return files.map((file) => {
    const name = freeName(file.name, taken);
    taken.add(name);
    return name === file.name ? file : new File([file], name, { type: file.type });
  });
}

/** Such as `image (2).png`. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  const dot = name.lastIndexOf('.');
  const end = dot > 0 ? dot : name.length;
  let free = name;
  for (let number = 2; taken.has(free); number += 1) free = `${name.slice(0, end)} (${number})${name.slice(end)}`;
  return free;
}
