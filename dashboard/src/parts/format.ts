const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', year: 'numeric' });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });
const hourAndMinute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const dayOfYear = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' });

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
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How long ago or ahead a time is. Rounds before it chooses the unit: 59.6 minutes are `1 h`, not `60 min`. */
export function relativeTime(then: number, now: number): string {
  const seconds = Math.round(Math.abs(now - then) / 1_000);
  const [minutes, hours, days] = [Math.round(seconds / 60), Math.round(seconds / 3_600), Math.round(seconds / 86_400)];
  if (seconds < 10) return 'just now';
  if (days >= 30) return day.format(then);
  const amount = seconds < 60 ? `${seconds} s` : minutes < 60 ? `${minutes} min` : hours < 24 ? `${hours} h` : `${days} d`;
  return then > now ? `in ${amount}` : `${amount} ago`;
}

/**
 * The time by a clock that ticks every ten seconds, and stands still while the page shows no time: so little behind the real one that what
 * happens just now is not ahead.
 */
export function recentTime(ticked: number, now = Date.now()): number {
  return Math.max(ticked, now - 9_000);
}

/** When something comes that may be late: a time that is reached, or nearly, is no "just now". */
export function dueTime(then: number, now: number): string {
  return then - now < 10_000 ? 'due now' : `next ${relativeTime(then, now)}`;
}

/** The time of an entry of a log, to the millisecond. */
export function clockTime(at: string, now = Date.now()): string {
  return dayBefore(at, now) + timeOfClock(at);
}

export function timeOfClock(at: string): string {
  return clock.format(new Date(at));
}

/** The time of a turn, to the minute. */
export function timeOfDay(at: string, now = Date.now()): string {
  return dayBefore(at, now) + hourAndMinute.format(new Date(at));
}

/** The day, to be written before the time. It is left out if it is today, and its year if it is this one. */
export function dayBefore(at: string, now = Date.now()): string {
  const [date, today] = [new Date(at), new Date(now)];
  if (date.toDateString() === today.toDateString()) return '';
  return `${(date.getFullYear() === today.getFullYear() ? dayOfYear : day).format(date)}, `;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${whole.format(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const step = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${(value / 1_000 ** step).toFixed(step === 0 ? 0 : 1)} ${units[step] ?? 'B'}`;
}
