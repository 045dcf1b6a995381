// Who one is. The token comes from the app around this page, from the address, or, in development, from the gateway.

import { call, credentials } from './api.js';

const STORED = 'hongbao.token';
const READY = 'hongbao:ready';
const TOKEN = 'hongbao:token';
const EXPIRED = 'hongbao:token-expired';

/**
 * `wait`: nobody knows yet. `in`: signed in as `user`. `out`: nobody is. `lost`: the token does not count any more.
 * `ask`: a link brought a token of `user`; they must agree before it counts.
 * @typedef {{state: 'wait' | 'in' | 'out' | 'lost' | 'ask' | 'offline', user: string, players: string[]}} Session
 */

/** @type {Session} */
let session = { state: 'wait', user: '', players: [] };
/** @type {Set<() => void>} */
const listeners = new Set();
let offered = '';

export const current = () => session;

/** @param {() => void} listener @returns {() => void} ends it */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** @param {Partial<Session>} change */
function become(change) {
  session = { ...session, ...change };
  for (const one of listeners) one();
}

/** The origins that may hand in a token: those that may frame the page. @returns {string[]} */
function parents() {
  const meta = document.querySelector('meta[name="hongbao-parents"]');
  return (meta?.getAttribute('content') ?? '').split(' ').filter(Boolean);
}

const framed = window.parent !== window;
/** How long the app around us may take to hand in a token before we say that it must. */
const HANDED_MS = 5_000;

/** Whether one may be somebody else here: not where an app says who one is. */
export const mayLeave = () => !(framed && parents().length);

/** Find the token: from the app around us, from the address, from before. */
export async function start() {
  credentials.onRejected = lose;
  if (framed && parents().length) {
    addEventListener('message', onMessage);
    tellParents(READY);
    setTimeout(() => session.state === 'wait' && become({ state: 'out' }), HANDED_MS);
    return;
  }
  const given = fromAddress();
  if (given) return offer(given);
  const stored = sessionStorage.getItem(STORED);
  if (stored) findPlayers();
  await (stored ? enter(stored) : leave());
}

/** Take the token out of the address at once: it must not stay in the history or in a copied link. */
function fromAddress() {
  const found = /^#token=([\w-]+\.[\w-]+\.[\w-]+)$/.exec(location.hash);
  if (!found) return '';
  history.replaceState(history.state, '', location.pathname + location.search);
  return found[1];
}

/**
 * A link can bring anybody's token: whoever follows it must see whose it is, or they would play into the hands of the
 * one who sent it.
 * @param {string} token
 */
function offer(token) {
  const user = userOf(token);
  if (!user) return lose('token_invalid');
  offered = token;
  become({ state: 'ask', user });
}

/** @param {boolean} yes whether they agree to be this user */
export async function answerOffer(yes) {
  const token = offered;
  offered = '';
  if (yes) return enter(token);
  const stored = sessionStorage.getItem(STORED);
  await (stored ? enter(stored) : leave());
}

/** @param {string} token */
function enter(token) {
  const user = userOf(token);
  if (!user) return lose('token_invalid');
  credentials.token = token;
  if (!framed) sessionStorage.setItem(STORED, token);
  become({ state: 'in', user });
}

/**
 * The user that a token names. Only to show it: whether the token counts the gateway says, at the first call.
 * @param {string} token a JWT
 */
function userOf(token) {
  try {
    const [, claims] = token.split('.');
    const { sub } = JSON.parse(atob(claims.replaceAll('-', '+').replaceAll('_', '/')));
    return typeof sub === 'string' ? sub : '';
  } catch {
    return '';
  }
}

/** Try again with the token of before, after there was no answer. */
export async function retry() {
  await (credentials.token ? enter(credentials.token) : leave());
}

/** Sign out, or find that nobody is signed in. */
export async function leave() {
  sessionStorage.removeItem(STORED);
  credentials.token = '';
  become({ state: 'wait', user: '' });
  await findPlayers();
  if (session.state === 'wait') become({ state: 'out' });
}

/** @param {string} code of the refusal */
function lose(code) {
  credentials.token = '';
  sessionStorage.removeItem(STORED);
  become({ state: 'lost' });
  if (framed) tellParents(EXPIRED, { code });
  else findPlayers();
}

async function findPlayers() {
  try {
    const { users } = await call('GET', 'play');
    become({ players: users });
  } catch (problem) {
    become({ players: [] });
    const { code } = /** @type {import('./api.js').Problem} */ (problem);
    if (code === 'offline' && session.state !== 'in') become({ state: 'offline' });
  }
}

/** Sign in as a user to play with. @param {string} user */
export async function play(user) {
  const { token } = await call('POST', 'play/token', { body: { user } });
  await enter(token);
}

/** @param {string} type @param {object=} more */
function tellParents(type, more) {
  // To each by name: a page of another origin that has framed us would not be told (and may not frame us).
  for (const origin of parents()) window.parent.postMessage({ type, ...more }, origin);
}

/** @param {MessageEvent} event */
function onMessage(event) {
  const known = event.source === window.parent && parents().includes(event.origin);
  const { type, token } = event.data ?? {};
  if (known && type === TOKEN && typeof token === 'string') enter(token);
}
