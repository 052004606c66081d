// Formats times for people.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The age in at most 6 characters: 12 s, 4 min, 3 h, 2 d. */
export function age(time: number, now: number): string {
  const past = now - time;
  if (past < SECOND) return 'now'; // or a clock that is ahead
  if (past < MINUTE) return `${Math.floor(past / SECOND)} s`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (past < DAY) return `${Math.floor(past / HOUR)} h`;
  return `${Math.floor(past / DAY)} d`;
}

/** A duration, as 45 s, 1 min 5 s, 2 h 3 min. */
export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(ms < 10 * SECOND ? 1 : 0)} s`;
  const pair = (big: number, small: number, a: string, b: string) => {
    const rest = Math.floor((ms % big) / small);
    return `${Math.floor(ms / big)} ${a}${rest > 0 ? ` ${rest} ${b}` : ''}`;
  };
  if (ms < HOUR) return pair(MINUTE, SECOND, 'min', 's');
  return ms < DAY ? pair(HOUR, MINUTE, 'h', 'min') : pair(DAY, HOUR, 'd', 'h');
}

/** The difference from another time, as -2.3 s or +1 min 5 s. */
export function offset(time: number, from: number): string {
  const d = time - from;
  return `${d < 0 ? '\u2212' : '+'}${duration(Math.abs(d))}`;
}

const two = (n: number) => String(n).padStart(2, '0');

/** The local time of day. */
export function clock(time: number): string {
  const d = new Date(time);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** The local date and time, in an order that sorts. */
export function full(time: number): string {
  const d = new Date(time);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(time)}`;
}
