// Numbers and times for people: three significant digits, units apart, local time.

const MINUS = "\u2212";
const SPACE = "\u202f";
const NONE = "\u2013";
const isMissing = (value) => value === null || value === undefined;

function scaled(value, base, units) {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= base * 0.9995 && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = (unit === 0 ? Math.round(size) : size.toFixed(digits)) + (units[unit] && SPACE + units[unit]);
  return value < 0 && Number(size.toFixed(digits)) !== 0 ? MINUS + text : text;
}

/** Tokens or calls: 950, 12.3 k, 4.56 M. */
export function count(value) {
  return isMissing(value) ? NONE : scaled(value, 1000, ["", "k", "M", "G", "T"]);
}

/** The whole number, for tooltips and details. */
export function exact(value) {
  return isMissing(value) ? NONE : new Intl.NumberFormat().format(value);
}

export function bytes(value) {
  return isMissing(value) ? NONE : scaled(value, 1024, ["B", "KiB", "MiB", "GiB"]);
}

/** A share: 0.1234 is 12.3 %. */
export function percent(value) {
  if (isMissing(value)) return NONE;
  const size = Math.abs(value * 100);
  const digits = size >= 100 || size === 0 ? 0 : 1;
  const text = size.toFixed(digits);
  if (Number(text) === 0 && size > 0) return `<${SPACE}0.1${SPACE}%`;
  return `${value < 0 ? MINUS : ""}${text}${SPACE}%`;
}

/** A time in milliseconds: 850 ms, 1.25 s. */
export function duration(value) {
  if (isMissing(value)) return NONE;
  if (value < 1) return `${value.toFixed(2)}${SPACE}ms`;
  if (value < 10) return `${value.toFixed(1)}${SPACE}ms`;
  if (value < 1000) return `${Math.round(value)}${SPACE}ms`;
  return `${(value / 1000).toFixed(value < 10000 ? 2 : 1)}${SPACE}s`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** A time in RFC 3339, as local time. The date is left out today. */
export function time(text) {
  const at = new Date(text);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

/** A time for an axis whose labels are `step` seconds apart: the date at midnight, else the time. */
export function tick(seconds, step) {
  const at = new Date(seconds * 1000);
  return step >= 86400 || (at.getHours() === 0 && at.getMinutes() === 0) ? day.format(at) : minute.format(at);
}

/** Now, for the state of the page. */
export const now = () => clock.format(new Date());

/** The time since then: 4 min ago. */
export function age(text) {
  const seconds = Math.max(0, (Date.now() - new Date(text)) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${SPACE}min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}${SPACE}h ago`;
  return `${Math.floor(seconds / 86400)}${SPACE}days ago`;
}

/** A name, or what stands for an unknown one. */
export function name(text) {
  return text === "_OTHER" ? "other" : text === "" ? "unnamed" : text;
}
