// One envelope, by its link: the cover, the coin, what came of it; and what may stand in the way, each a screen of its own.

import { useEffect, useRef, useState } from 'preact/hooks';
import { call, patiently, Problem } from '../api.js';
import { now as present } from '../clock.js';
import { lang, t, when } from '../i18n.js';
import { Claims, watch } from '../live.js';
import { words } from '../money.js';
import { announce, html, Screen } from '../ui.js';
import { Coin, Cover } from './cover.js';
import { Result } from './result.js';

const PART_MS = 900;
const BROKEN = new Set(['share_id_invalid', 'malformed_envelope_id', 'impossible_day', 'future_envelope_id', 'unknown_slot', 'route_not_found']);
const FINAL = new Set(['sold_out', 'expired', 'canceled']);
/** Results that have a screen of their own; a later release may have others. */
const KNOWN = new Set([...FINAL, 'not_invited', 'not_started']);

/** @typedef {import('../i18n.js').Key} Key */

/**
 * What is on the screen. `cover`: it can be opened. `result`: what came of it. Everything else is a sentence.
 * @typedef {'loading' | 'cover' | 'result' | 'sold_out' | 'expired' | 'canceled' | 'not_invited' | 'not_started' | 'tries'
 *   | 'busy' | 'offline' | 'broken' | 'missing' | 'trouble'} View
 */

/** @param {Problem} problem @returns {View} */
function viewOf({ code, key, retry }) {
  if (code === 'offline') return 'offline';
  // What has a sentence of its own is said: a limit of the day is no crowd.
  if (code !== 'busy' && key === `problem.${code}`) return 'trouble';
  if (BROKEN.has(code)) return 'broken';
  if (code === 'not_found') return 'missing';
  if (code === 'not_invited') return 'not_invited';
  return retry === 'later' || retry === 'repeat' ? 'busy' : 'trouble';
}

/** @param {any} asked the answer to grab or open @returns {View} */
function viewOfResult({ result, tries_left: left }) {
  if (result === 'opened' || result === 'already_opened') return 'result';
  if (result === 'openable') return 'cover';
  if (result === 'wrong_password') return left === 0 ? 'tries' : 'cover';
  return KNOWN.has(result) ? result : 'trouble';
}

/** @param {{id: string, cover: string, user: string}} props */
export function Envelope({ id, cover, user }) {
  const path = `envelopes/${encodeURIComponent(id)}`;
  const claims = useRef(new Claims()).current;
  const [view, setView] = useState(/** @type {View} */ ('loading'));
  const [detail, setDetail] = useState(/** @type {any} */ (null));
  const [asked, setAsked] = useState(/** @type {any} */ ({}));
  const [wait, setWait] = useState(0);
  const [opening, setOpening] = useState(false);
  const [parting, setParting] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const alive = useRef(new AbortController()).current;
  useEffect(() => () => alive.abort(), []);

  /** @param {any} seen */
  const show = (seen) => {
    claims.add(seen.claims, seen.claimed_count);
    setDetail((/** @type {any} */ old) => ({ ...old, ...seen, share_id: seen.share_id ?? old?.share_id }));
  };
  /** @param {unknown} error */
  const fail = (error) => {
    if (alive.signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    setWait(0);
    setProblem(error);
    setView(viewOf(error));
  };
  const options = { signal: alive.signal, onWait: (/** @type {number} */ seconds) => setWait(Math.ceil(seconds)) };
  const load = async () => {
    setView('loading');
    try {
      const [seen, answer] = await Promise.all([
        patiently(() => call('GET', path, { signal: alive.signal }), options),
        patiently(() => call('POST', `${path}/grab`, { signal: alive.signal }), options),
      ]);
      setWait(0);
      show(seen);
      setAsked(answer);
      const found = viewOfResult(answer);
      // A sender who is not among those who may open it still sees how it goes.
      setView(found === 'not_invited' && seen.sender === user ? 'result' : found);
    } catch (error) {
      fail(error);
    }
  };
  useEffect(() => void load(), [path]);
  useEffect(() => {
    if (view !== 'offline') return undefined;
    addEventListener('online', load);
    return () => removeEventListener('online', load);
  }, [view]);

  /** @param {string} password */
  const open = async (password) => {
    setOpening(true);
    announce(t('envelope.opening'));
    try {
      const body = password ? { password } : undefined;
      const answer = await patiently(() => call('POST', `${path}/open`, { body, signal: alive.signal }), options);
      setWait(0);
      setAsked({ ...answer, password_required: Boolean(password) || asked.password_required });
      const found = viewOfResult(answer);
      if (found === 'result') {
        setParting(true);
        setTimeout(() => setParting(false), PART_MS);
        announce(t('envelope.got', { words: words(answer.amount_fen, lang()) }));
      }
      setView(found);
      if (found === 'cover' && answer.tries_left !== undefined) announce(t('envelope.password.wrong', { n: answer.tries_left }));
      call('GET', path).then(show, () => {});
    } catch (error) {
      fail(error);
    }
    setOpening(false);
  };

  const watching = detail && (view === 'result' || view === 'cover' || view === 'not_started');
  const final = FINAL.has(detail?.status);
  useEffect(() => {
    if (!watching || (final && detail.split_seed)) return undefined;
    return watch(id, (frame) => {
      show(frame);
      // By the server's clock, not by this one's.
      if (view === 'not_started' && frame.status !== 'scheduled') load();
      // The seed and the refund come with the end.
      if (FINAL.has(frame.status) && !detail.split_seed) call('GET', path).then(show, () => {});
    });
  }, [id, watching, view === 'not_started', final, detail?.split_seed]);
  useEffect(() => {
    if (view === 'result') document.getElementById('win')?.focus({ preventScroll: true });
  }, [view]);

  const title = detail ? t('envelope.of', { name: detail.sender }) : t('title');
  const shown = detail && { sender: detail.sender, greeting: detail.greeting, cover };
  return html`<${Screen} title=${title} hidden back class="envelope">
    ${view === 'result' && html`<${Result} path=${path} detail=${detail} claims=${claims} own=${asked.amount_fen ? asked : null} user=${user}
      note=${noteOf(asked.result)} onDetail=${show} />`}
    ${(view === 'cover' || parting) && html`<${Cover} ...${shown} deep=${detail.password_required} away=${parting}>
      <${OpenForm} detail=${detail} asked=${asked} opening=${opening} wait=${wait} onOpen=${open} onSee=${detail.sender === user && (() => setView('result'))} />
    <//>`}
    ${view !== 'result' && view !== 'cover' && html`<${Sentence} view=${view} cover=${cover} detail=${detail} shown=${shown} asked=${asked} wait=${wait} problem=${problem}
      onAgain=${load} onSee=${() => setView('result')} />`}
  <//>`;
}

/** @param {string} result */
function noteOf(result) {
  if (result === 'sold_out' || result === 'expired' || result === 'canceled') return t(`state.${result}`);
  return '';
}

/**
 * @param {{detail: any, asked: any, opening: boolean, wait: number, onOpen: (password: string) => void,
 *   onSee: (() => void) | false}} props
 */
function OpenForm({ detail, asked, opening, wait, onOpen, onSee }) {
  const [password, setPassword] = useState('');
  const wrong = asked.result === 'wrong_password';
  const needed = Boolean(detail.password_required);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (opening) return;
    if (needed && !password) document.getElementById('password')?.focus();
    else onOpen(password);
  };
  return html`<form class="open" onSubmit=${submit} noValidate>
    <${Coin} label=${t('envelope.open.label', { name: detail.sender, greeting: detail.greeting })} spinning=${opening} />
    ${needed && html`<p class="password">
      <label class="vh" for="password">${t('envelope.password')}</label>
      <input id="password" type="text" autocomplete="off" autocapitalize="off" maxlength="32" placeholder=${t('envelope.password')} value=${password} dir="auto"
        aria-invalid=${wrong ? 'true' : undefined} aria-describedby=${wrong ? 'password-error' : undefined}
        onInput=${(/** @type {any} */ event) => setPassword(event.currentTarget.value)} />
      ${wrong && html`<span class="error" id="password-error">${t('envelope.password.wrong', { n: asked.tries_left })}</span>`}
    </p>`}
    <p class="under">${wait > 0 ? t('state.busy.wait', { n: wait }) : onSee && html`<button type="button" class="quiet" onClick=${onSee}>${t('envelope.see')}</button>`}</p>
  </form>`;
}

/**
 * What stands in the way, in one sentence, and what one can do.
 * @param {{view: View, cover: string, detail: any, shown: any, asked: any, wait: number, problem: Problem | null, onAgain: () => void, onSee: () => void}} props
 */
function Sentence({ view, cover, detail, shown, asked, wait, problem, onAgain, onSee }) {
  const heading = /** @type {{current: HTMLElement | null}} */ (useRef(null));
  useEffect(() => {
    if (view !== 'loading') heading.current?.focus({ preventScroll: true });
  }, [view]);
  if (view === 'loading') {
    // The cover is in the link: it is there before anybody knows whose it is.
    return html`<${Cover} sender="" greeting="" cover=${cover}><div class="sentence" role="status">
      ${wait > 0 && html`<h2>${t('state.busy')}</h2>`}
      <p class=${wait ? '' : 'late-text'}>${wait ? t('state.busy.wait', { n: wait }) : t('loading')}</p></div><//>`;
  }
  const text = `state.${view}.text`;
  const words = view === 'not_started' ? t('state.not_started.text', { time: when(asked.opens_at, true) }) : hasText(view) ? t(/** @type {Key} */ (text)) : '';
  // What needs more room than below a cover.
  const plain = !shown || view in SIGNS;
  const inside = html`<div class="sentence">
    ${plain && html`<svg class="sign" viewBox="0 0 24 24" aria-hidden="true"><path d=${SIGNS[view] ?? SIGNS.trouble} /></svg>`}
    <h2 tabindex="-1" ref=${heading}>${t(/** @type {Key} */ (`state.${view}`))}</h2>
    ${words && html`<p>${words}</p>`}
    ${view === 'trouble' && problem && html`<p>${t(problem.key)}</p><p class="detail" lang="en">${problem.detail}</p>`}
    ${view === 'not_started' && html`<${Countdown} until=${asked.opens_at} onEnd=${onAgain} />`}
    ${(view === 'offline' || view === 'busy' || view === 'trouble') && html`<button type="button" class="gold" onClick=${onAgain}>${t('again')}</button>`}
    ${FINAL.has(view) && detail && html`<button type="button" class="quiet" onClick=${onSee}>${t('envelope.see')}</button>`}
  </div>`;
  if (plain) return html`<div class="cover cover-plain"><div class="cover-bottom"></div>${inside}</div>`;
  return html`<${Cover} ...${shown}>${inside}<//>`;
}

/** @type {Partial<Record<View, string>>} */
const SIGNS = {
  not_invited: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3M12 15v2',
  broken: 'M10 14l4-4M8 12l-2 2a3.5 3.5 0 0 0 5 5l1-1M16 12l2-2a3.5 3.5 0 0 0-5-5l-1 1M5 6l2 2M19 18l-2-2',
  missing: 'M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M16 16l4 4M9 9l4 4m0-4l-4 4',
  offline: 'M3 9a13 13 0 0 1 18 0M6 12.5a9 9 0 0 1 12 0M9 16a5 5 0 0 1 6 0M12 19h.01M4 4l16 16',
  busy: 'M7 3h10M7 21h10M8 3v4l4 5l4-5V3M8 21v-4l4-5l4 5v4',
  trouble: 'M12 4l9 16H3zM12 10v4m0 3h.01',
};

const WITH_TEXT = new Set(['expired', 'canceled', 'not_invited', 'tries', 'busy', 'offline', 'broken', 'missing']);
/** @param {View} view */
const hasText = (view) => WITH_TEXT.has(view);

/** @param {{until: string, onEnd: () => void}} props */
function Countdown({ until, onEnd }) {
  const end = Date.parse(until);
  const [now, setNow] = useState(present());
  useEffect(() => {
    const timer = setInterval(() => setNow(present()), 250);
    return () => clearInterval(timer);
  }, []);
  const over = now >= end;
  useEffect(() => {
    if (!over) return undefined;
    // A clock that is ahead of the server's would ask at once, again and again; and a group need not ask as one.
    const timer = setTimeout(onEnd, 100 + 900 * Math.random());
    return () => clearTimeout(timer);
  }, [over]);
  const seconds = Math.max(0, Math.ceil((end - now) / 1000));
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map((one) => String(one).padStart(2, '0'));
  return html`<p class="countdown" role="timer" aria-label=${t('state.not_started.left', { left: parts.join(':') })}>${parts.join(':')}</p>`;
}
