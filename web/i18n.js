// Texts in Chinese and English, and how instants are written.

import { now } from './clock.js';
import { en, zh } from './texts.js';

/** @typedef {keyof typeof zh} Key */
/** @typedef {'zh' | 'en'} Language */

const TEXTS = { zh, en };
const STORED = 'hongbao.lang';
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Language} */
let current = 'zh';

/** The language of before, or the first of the browser's that we have. */
export function startLanguage() {
  const wanted = [localStorage.getItem(STORED) ?? '', ...navigator.languages].map((one) => one.slice(0, 2).toLowerCase());
  apply(wanted.find((one) => one === 'zh' || one === 'en') === 'zh' ? 'zh' : 'en');
}

/** @param {Language} language */
export function setLanguage(language) {
  localStorage.setItem(STORED, language);
  apply(language);
  for (const one of listeners) one();
}

/** @param {Language} language */
function apply(language) {
  current = language;
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
}

export const lang = () => current;

/** @param {() => void} listener @returns {() => void} ends it */
export function onLanguage(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * A text of the current language, with its `{names}` filled in. A text with a form for one has it after a bar:
 * "{n} shares|{n} share".
 * @param {Key} key @param {Record<string, string | number>=} values
 */
export function t(key, values = {}) {
  const [many, one] = TEXTS[current][key].split('|');
  const text = one !== undefined && values.n === 1 ? one : many;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

/** @param {string} key @returns {key is Key} */
export const isKey = (key) => Object.hasOwn(zh, key);

/**
 * @param {string | number | Date} instant @param {boolean=} seconds @param {boolean=} dated also if it is today
 * @returns {string} with the date unless it is today
 */
export function when(instant, seconds = false, dated = false) {
  const date = new Date(instant);
  const today = date.toDateString() === new Date(now()).toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const time = { hour: '2-digit', minute: '2-digit', ...(seconds && { second: '2-digit' }), hour12: false };
  /** @type {Intl.DateTimeFormatOptions} */
  const day = today && !dated ? {} : { month: 'numeric', day: 'numeric' };
  return new Intl.DateTimeFormat(document.documentElement.lang, { ...day, ...time }).format(date);
}

/** How long something took. @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 60) return t('seconds', { n: seconds });
  if (seconds < 3600) return t('minutes', { n: Math.round(seconds / 60) });
  return t('hours', { n: Math.round(seconds / 3600) });
}
