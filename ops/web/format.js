import { language } from "./words.js";

const NONE = "–";
const cache = new Map();

function number(digits) {
  const key = `${language()} ${digits}`;
  if (!cache.has(key)) {
    cache.set(key, new Intl.NumberFormat(language(), { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return cache.get(key);
}

/** A count, or a rate: 1,234 above 100, 12.3 below. */
export function count(value) {
  if (value === null || value === undefined) return NONE;
  return number(Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : 1).format(value);
}

export function ms(value) {
  if (value === null || value === undefined) return NONE;
  return value >= 10_000 ? `${number(1).format(value / 1000)} s` : `${number(value >= 100 ? 0 : 1).format(value)} ms`;
}

export function yuan(fen) {
  return fen === null || fen === undefined ? NONE : `¥${number(2).format(fen / 100)}`;
}

export function megabytes(bytes) {
  return bytes ? `${number(0).format(bytes / 1_048_576)} MB` : NONE;
}

/** A stretch of time: in ms below ten seconds, else in the largest unit. */
export function stretch(value) {
  return value < 10_000 ? ms(value) : age(1, value + 1);
}

/** How long ago, in the largest unit: 12 s, 4 min, 3 h, 2 d. */
export function age(from, now) {
  if (!from) return NONE;
  const seconds = Math.max(0, Math.round((now - from) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export function clock(at) {
  return new Date(at).toLocaleTimeString(language(), { hour12: false });
}

/** An instant with its date and milliseconds, in the reader's own time zone. */
export function instant(at) {
  const one = new Date(at), two = value => String(value).padStart(2, "0");
  return `${one.getFullYear()}-${two(one.getMonth() + 1)}-${two(one.getDate())} ${two(one.getHours())}:` +
    `${two(one.getMinutes())}:${two(one.getSeconds())}.${String(one.getMilliseconds()).padStart(3, "0")}`;
}
