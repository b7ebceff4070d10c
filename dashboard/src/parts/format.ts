const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

export function compact(value: number): string {
  return short.format(value);
}

/** Micro-dollars as a person reads money: small amounts keep the digits that matter. */
export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  const digits = dollars !== 0 && Math.abs(dollars) < 1 ? 4 : 2;
  return `$${dollars.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

/** Rounded before it is cut into units: what is nearly two minutes is not one minute and 60 seconds. */
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
