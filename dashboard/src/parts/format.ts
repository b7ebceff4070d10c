const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

export function compact(value: number): string {
  return short.format(value);
}

/** Micro-dollars as dollars. Amounts below one dollar have up to four digits after the point. */
export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  const digits = dollars !== 0 && Math.abs(dollars) < 1 ? 4 : 2;
  return `$${dollars.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

/** Rounds before it splits into units: 119.9 seconds are `2 min 0 s`, not `1 min 60 s`. */
export function duration(milliseconds: number): string {
  const tenths = Math.round(milliseconds / 100);
  const seconds = Math.round(milliseconds / 1_000);
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${whole.format(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const step = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${(value / 1_000 ** step).toFixed(step === 0 ? 0 : 1)} ${units[step] ?? 'B'}`;
}
