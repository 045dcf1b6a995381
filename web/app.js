// The page: who one is, where one is, and the frame around every screen.

import { render } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useState } from 'preact/hooks';
import { inSandbox, now, onClock, startClock } from './clock.js';
import { lang, onLanguage, setLanguage, startLanguage, t, when } from './i18n.js';
import { follow, onMove, place, url } from './router.js';
import { current, leave, mayLeave, onSession, start } from './session.js';
import { classes, Face, html, Name } from './ui.js';

// The cover is the largest thing that one sees, and the address names it: it comes while the screens begin.
if (place().name === 'envelope') new Image().src = import.meta.resolve(`./covers/${/^[1-4]$/.test(place().cover) ? place().cover : 1}.svg`);

/** Screens are loaded when somebody goes there. The index preloads those of its own address (gateway/site/page.py). */
const SCREENS = {
  home: () => import('./screens/home.js').then((module) => module.Home),
  envelope: () => import('./screens/envelope.js').then((module) => module.Envelope),
  signin: () => import('./screens/signin.js').then((module) => module.SignIn),
  send: () => import('./screens/send.js').then((module) => module.Send),
  share: () => import('./screens/share.js').then((module) => module.Share),
  room: () => import('./screens/room.js').then((module) => module.Room),
  sent: () => import('./screens/history.js').then((module) => module.History),
  received: () => import('./screens/history.js').then((module) => module.History),
};

/** @type {Map<string, any>} */
const loaded = new Map();

/** @param {keyof typeof SCREENS} name */
const load = async (name) => loaded.set(name, await SCREENS[name]());

function App() {
  const [, redraw] = useReducer((/** @type {number} */ n) => n + 1, 0);
  // Before anything can change: an answer may be faster than the first paint.
  useLayoutEffect(() => {
    const ends = [onLanguage(() => redraw(0)), onMove(() => redraw(0)), onSession(() => redraw(0))];
    return () => ends.forEach((end) => end());
  }, []);
  const session = current();
  const where = place();
  const inside = session.state === 'in';
  return html`<div class=${classes('frame', `at-${inside ? where.name : 'signin'}`)}>
    <${SandboxTime} />
    <${Bar} user=${inside ? session.user : ''} />
    ${session.state === 'wait' ? html`<main class="screen calm"><p class="late-text">${t('loading')}</p></main>`
      : inside ? html`<${Later} key=${`${session.user} ${where.name} ${where.id}`} name=${where.name} id=${where.id} cover=${where.cover} user=${session.user} />`
      : html`<${Later} key="signin" name="signin" session=${session} />`}
    ${inside && where.name !== 'envelope' && html`<${Tabs} at=${where.name} />`}
  </div>`;
}

/** @param {{name: keyof typeof SCREENS, [more: string]: unknown}} props */
function Later({ name, ...props }) {
  const [, redraw] = useReducer((/** @type {number} */ n) => n + 1, 0);
  const [failed, setFailed] = useState(false);
  const View = loaded.get(name);
  useEffect(() => {
    if (!View) load(name).then(() => redraw(0), () => setFailed(true));
  }, [name]);
  if (View) return html`<${View} role=${name} ...${props} />`;
  // What a module map remembers as failed it does not ask for again: only a new page does.
  return html`<main class="screen calm">${failed
    ? html`<p>${t('problem.offline')}</p><button type="button" class="primary" onClick=${() => location.reload()}>${t('again')}</button>`
    : html`<p class="late-text">${t('loading')}</p>`}</main>`;
}

/** @param {{user: string}} props */
function Bar({ user }) {
  const other = lang() === 'zh' ? 'en' : 'zh';
  return html`<header class="topbar">
    <a class="brand" id="brand" href=${url('')} onClick=${follow}>${t('title')}</a>
    ${user && (mayLeave()
      ? html`<button type="button" class="who" id="who" onClick=${leave}><${Face} user=${user} /><${Name} user=${user} /><span class="vh">: ${t('signout')}</span></button>`
      : html`<span class="who"><${Face} user=${user} /><${Name} user=${user} /></span>`)}
    <span class="spacer"></span>
    <${Theme} />
    <button type="button" class="icon" id="language" lang=${other === 'zh' ? 'zh-CN' : 'en'} onClick=${() => setLanguage(other)}><span aria-hidden="true">${other === 'zh' ? '中' : 'EN'}</span><span class="vh">${other === 'zh' ? '中文' : 'English'}</span></button>
  </header>`;
}

/** What time it is in a sandbox; nothing elsewhere. */
function SandboxTime() {
  const [, redraw] = useReducer((/** @type {number} */ n) => n + 1, 0);
  useEffect(() => onClock(() => redraw(0)), []);
  return inSandbox() && html`<aside class="sandbox" id="sandbox" aria-label=${t('sandbox')}>${t('sandbox')} · ${when(now(), false, true)}</aside>`;
}

function Theme() {
  const [name, setName] = useState(theme);
  const next = () => {
    nextTheme();
    setName(theme);
  };
  return html`<button type="button" class="icon" id="theme" aria-label=${`${t('theme')}: ${t(`theme.${name}`)}`} onClick=${next}>
    <svg viewBox="0 0 20 20" aria-hidden="true"><circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.6" /><path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" /></svg></button>`;
}

/** @param {{at: string}} props */
function Tabs({ at }) {
  const tabs = /** @type {const} */ ([['home', '', 'home'], ['send', '#send', 'send'], ['received', '#received', 'history']]);
  return html`<nav class="tabbar" aria-label=${t('title')}>
    ${tabs.map(([name, path, text]) => html`<a key=${name} id=${`go-${name}-tab`} href=${url(path)} onClick=${follow} class=${classes(`tab-${name}`)}
      aria-current=${at === name || (name === 'received' && at === 'sent') ? 'page' : undefined}><${Icon} name=${name} /><span>${t(text)}</span></a>`)}
  </nav>`;
}

const ICONS = {
  home: 'M3 7a2 2 0 0 1 2-2h11v3M3 7v9a2 2 0 0 0 2 2h14V8H5a2 2 0 0 1-2-1zm12 6h.01',
  send: 'M6 3h12v18H6zM6 8q6 4 12 0M12 12v4m-2-2h4',
  received: 'M12 7v5l3 2M21 12a9 9 0 1 1-3-6.7M21 3v4h-4',
};

/** @param {{name: keyof typeof ICONS}} props */
const Icon = ({ name }) => html`<svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"><path d=${ICONS[name]} /></svg>`;

// Light or dark: as the system, unless somebody has chosen.

const STORED = 'hongbao.theme';
const THEMES = /** @type {const} */ (['auto', 'light', 'dark']);

/** @returns {'auto' | 'light' | 'dark'} */
const theme = () => THEMES.find((one) => one === document.documentElement.dataset.theme) ?? 'auto';

function startTheme() {
  apply(localStorage.getItem(STORED) ?? 'auto');
}

/** @param {string} name */
function apply(name) {
  if (name === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  localStorage.setItem(STORED, next);
  apply(next);
}

startLanguage();
startTheme();
startClock();
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
start();
const begin = () => {
  root.textContent = '';
  render(html`<${App} />`, root);
};
// With its first screen, which the index has preloaded: one picture less on the way to it.
load(current().state === 'in' ? place().name : 'signin').then(begin, begin);
