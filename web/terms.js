// The form of a new envelope: what is wrong with it, and what is sent. No markup here.

import { t } from './i18n.js';
import { MOST_SHARES, parseCount, parseFen, yuan } from './money.js';

/** @typedef {'lucky' | 'equal' | 'named' | 'password'} Mode */
/**
 * @typedef {object} Draft as it is typed
 * @property {Mode} mode
 * @property {string} amount
 * @property {string} count
 * @property {string} to
 * @property {string} password
 * @property {string} greeting
 * @property {boolean} later
 * @property {string} opens_at local time, as datetime-local has it
 */
/** @typedef {Partial<Record<'amount' | 'count' | 'to' | 'password' | 'greeting' | 'opens_at', string>>} Wrongs */

export const MODES = /** @type {const} */ (['lucky', 'equal', 'named', 'password']);
const GREETING_CHARS = 64;
const PASSWORD_CHARS = 32;
const MOST_NAMES = 100;
const MOST_AHEAD_MS = 5 * 86_400_000;
const USER = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,39}$/;
// As the gateway has it: controls, and marks that turn the direction of writing.
const UNWANTED = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** @param {string} text @returns {string[]} */
export const names = (text) => text.split(/[\s,，、;；]+/).filter(Boolean);

/** @param {Mode} mode whether the amount is that of one share, not of all */
export const isEach = (mode) => mode === 'equal' || mode === 'named';

/** @param {Draft} draft @returns {number} in fen, 0 while there is none */
export function total(draft) {
  const { fen } = parseFen(draft.amount);
  return isEach(draft.mode) ? fen * (shares(draft) ?? 0) : fen;
}

/** @param {Draft} draft */
export function shares(draft) {
  return draft.mode === 'named' ? names(draft.to).length || null : parseCount(draft.count);
}

/** @param {Draft} draft @param {number | null} balance @param {number} now @returns {Wrongs} */
export function wrongs(draft, balance, now) {
  /** @type {Wrongs} */
  const found = {};
  const { fen, wrong } = parseFen(draft.amount);
  const [count, all] = [shares(draft), total(draft)];
  if (wrong) found.amount = t(`wrong.amount.${wrong}`);
  else if (all > 100_000_000) found.amount = t('wrong.amount.too_much');
  else if (balance !== null && all > balance) found.amount = t('wrong.amount.balance', { balance: yuan(balance) });
  if (draft.mode === 'named') found.to = wrongNames(names(draft.to));
  else if (count === null || count < 1 || count > MOST_SHARES) found.count = t('wrong.count');
  else if (!isEach(draft.mode) && fen && count > fen) found.count = t('wrong.count.total', { most: fen, n: fen });
  if (draft.mode === 'password') found.password = wrongText(draft.password, 1, PASSWORD_CHARS, t('wrong.password'));
  found.greeting = wrongText(draft.greeting, 0, GREETING_CHARS, t('wrong.greeting'));
  if (draft.later) found.opens_at = wrongStart(Date.parse(draft.opens_at), now);
  return /** @type {Wrongs} */ (Object.fromEntries(Object.entries(found).filter(([, text]) => text)));
}

/** @param {string[]} list */
function wrongNames(list) {
  if (!list.length) return t('wrong.to.empty');
  if (list.length > MOST_NAMES) return t('wrong.to.many');
  const odd = list.find((one) => !USER.test(one));
  if (odd) return t('wrong.to.malformed', { name: odd });
  const twice = list.find((one, i) => list.indexOf(one) !== i);
  return twice && t('wrong.to.twice', { name: twice });
}

/** @param {string} text @param {number} least @param {number} most @param {string} sentence */
function wrongText(text, least, most, sentence) {
  if (UNWANTED.test(text)) return t('wrong.control');
  const { length } = [...text];
  return length < least || length > most ? sentence : undefined;
}

/** @param {number} start @param {number} now */
function wrongStart(start, now) {
  if (Number.isNaN(start)) return t('wrong.opens_at.empty');
  if (start <= now) return t('wrong.opens_at.past');
  return start > now + MOST_AHEAD_MS ? t('wrong.opens_at.far') : undefined;
}

/** What is sent for a draft with nothing wrong. @param {Draft} draft */
export function body(draft) {
  const { mode, greeting, password, later, opens_at: opensAt } = draft;
  return {
    kind: isEach(mode) ? 'equal' : 'lucky',
    total_fen: total(draft),
    count: shares(draft),
    greeting: greeting.trim() || t('send.greeting.default'),
    ...(mode === 'named' && { to: names(draft.to) }),
    ...(mode === 'password' && { password }),
    ...(later && { opens_at: new Date(opensAt).toISOString() }),
  };
}
