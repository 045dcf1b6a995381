// Where one is: the address, relative to the page's base, so that any prefix may stand before it.

const BASE = new URL(globalThis.document?.baseURI ?? 'file:///');
BASE.hash = '';
BASE.search = '';

/** @typedef {{name: 'home' | 'send' | 'sent' | 'received' | 'share' | 'room' | 'envelope', id: string, cover: string}} Place */

/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Map<string, string>} By address: the element that had the focus when somebody left. */
const left = new Map();
let moves = 0;
let returning = false;

/** @param {string} path below the base @returns {string} */
export const url = (path) => new URL(path, BASE).href;

/** @returns {Place} */
export function place() {
  const path = location.pathname.slice(BASE.pathname.length);
  const cover = new URLSearchParams(location.search).get('c') ?? '';
  if (path.startsWith('s/')) return { name: 'envelope', id: decode(path.slice(2)), cover };
  const [name, id = ''] = location.hash.slice(1).split('/');
  if (name === 'send' || name === 'sent' || name === 'received' || name === 'share' || name === 'room') return { name, id, cover };
  return { name: 'home', id: '', cover };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} id an envelope's ID or share ID @param {string=} cover */
export const envelopePath = (id, cover) => `s/${encodeURIComponent(id)}${cover ? `?c=${encodeURIComponent(cover)}` : ''}`;

/** @param {string} path @param {{replace?: boolean}=} options */
export function go(path, { replace } = {}) {
  const id = document.activeElement?.id;
  if (id && !replace) left.set(location.href, id);
  returning = false;
  history[replace ? 'replaceState' : 'pushState']({ inside: true }, '', url(path));
  moved();
}

/** To where one came from, or home. */
export function back() {
  if (history.state?.inside) history.back();
  else go('');
}

/** @param {MouseEvent} event of a link within the page */
export function follow(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const { href } = /** @type {HTMLAnchorElement} */ (event.currentTarget);
  if (!href.startsWith(BASE.href)) return;
  event.preventDefault();
  go(href.slice(BASE.href.length));
}

/** Whether nobody has gone anywhere yet: then the browser has put the focus where it belongs. */
export const isFirst = () => moves === 0;

/** @returns {HTMLElement | null} what had the focus when somebody left this screen, if they come back to it */
export function takeFocus() {
  const id = returning ? left.get(location.href) : undefined;
  left.delete(location.href);
  return id ? document.getElementById(id) : null;
}

/** @param {() => void} listener @returns {() => void} ends it */
export function onMove(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function moved() {
  moves++;
  for (const one of listeners) one();
}

globalThis.addEventListener?.('popstate', () => {
  returning = true;
  moved();
});
