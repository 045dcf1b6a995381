// What every screen is made of: markup by htm, the screen with its heading, fields, amounts, faces.

import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import htm from 'htm';
import { lang, t } from './i18n.js';
import { words, yuan } from './money.js';
import { back, isFirst, takeFocus } from './router.js';

/** @typedef {import('preact').ComponentChildren} Children */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/** @param {...(string | false | null | undefined)} names */
export const classes = (...names) => names.filter(Boolean).join(' ');

/**
 * A screen: its heading takes the focus when somebody comes here, or what they left for another screen does when they
 * come back. Esc goes back.
 * @param {{title: string, hidden?: boolean, back?: boolean, class?: string, children?: Children}} props
 */
export function Screen({ title, hidden, back: mayGoBack, class: name, children }) {
  const heading = /** @type {{current: HTMLElement | null}} */ (useRef(null));
  useEffect(() => {
    if (isFirst()) return;
    const left = takeFocus();
    (left ?? heading.current)?.focus({ preventScroll: !left });
    if (!left) scrollTo(0, 0);
  }, []);
  useEffect(() => {
    document.title = `${title} · ${t('title')}`;
  }, [title]);
  useEffect(() => {
    if (!mayGoBack) return undefined;
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.key === 'Escape' && !event.defaultPrevented && !document.querySelector('dialog[open]')) back();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [mayGoBack]);
  return html`<main class=${classes('screen', name)}>
    <header class=${classes('heading', hidden && 'vh')}>
      ${mayGoBack && html`<button type="button" class="icon" aria-label=${t('back')} onClick=${back}>‹</button>`}
      <h1 tabindex="-1" ref=${heading}>${title}</h1>
    </header>
    ${children}
  </main>`;
}

/**
 * An amount in yuan, read out as words.
 * @param {{fen: number, sign?: boolean, class?: string}} props
 */
export function Amount({ fen, sign, class: name }) {
  const text = (sign && fen > 0 ? '+' : '') + yuan(fen).replace('-', '−');
  return html`<span class=${classes('amount', name)} role="img" aria-label=${words(fen, lang())}>${text}</span>`;
}

const FACES = 6;

/** @param {{user: string, large?: boolean}} props */
export function Face({ user, large }) {
  const number = [...user].reduce((all, one) => (all * 31 + (one.codePointAt(0) ?? 0)) % 9973, 7) % FACES;
  const first = /** @type {string} */ ([...user][0] ?? '?').toUpperCase();
  return html`<span class=${classes('face', `face-${number}`, large && 'face-large')} aria-hidden="true">${first}</span>`;
}

/** A name may have any letters, in any direction. @param {{user: string}} props */
export const Name = ({ user }) => html`<bdi class="name" title=${user}>${user}</bdi>`;

/**
 * A sentence around a name, which may run in another direction.
 * @param {{text: 'envelope.of' | 'envelope.sent', user: string}} props
 */
export function Around({ text, user }) {
  const [before, after] = t(text, { name: '\u0000' }).split('\u0000');
  return html`${before}<${Name} user=${user} />${after}`;
}

/**
 * A field with its label, and what is wrong with it beside it.
 * @param {{id: string, label: string, error?: string | null, hint?: Children, suffix?: string, children: any}} props
 */
export function Field({ id, label, error, hint, suffix, children }) {
  return html`<div class=${classes('field', error && 'wrong')}>
    <div class="field-line">
      <label for=${id}>${label}</label>
      ${children}${suffix && html`<span class="suffix" aria-hidden="true">${suffix}</span>`}
    </div>
    ${error && html`<p class="error" id=${`${id}-error`}>${error}</p>`}
    ${!error && hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`;
}

/** What a field's input says about itself. @param {string} id @param {string | null | undefined} error */
export const described = (id, error) => ({
  id,
  name: id,
  'aria-invalid': error ? 'true' : undefined,
  'aria-describedby': `${id}-${error ? 'error' : 'hint'}`,
});

/**
 * A dialog that takes the focus and gives it back; Esc closes it.
 * @param {{title: string, onClose: () => void, children?: Children}} props
 */
export function Dialog({ title, onClose, children }) {
  const dialog = /** @type {{current: HTMLDialogElement | null}} */ (useRef(null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  /** @param {MouseEvent} event */
  const onClick = (event) => event.target === dialog.current && dialog.current?.close();
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose} onClick=${onClick}>
    <div class="sheet">
      <header><h2>${title}</h2>
        <button type="button" class="icon" aria-label=${t('close')} onClick=${() => dialog.current?.close()}>×</button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** @param {{problem: import('./api.js').Problem | null}} props */
export function Trouble({ problem }) {
  return html`<div role="alert" class="trouble-place">${problem && html`<div class="trouble">
    <p>${t(problem.key)}</p>
    ${problem.detail && html`<p class="detail" lang="en" dir="auto">${problem.detail}</p>`}
  </div>`}</div>`;
}

/**
 * The end of a list that is not whole: a button that is pressed by itself when one sees it.
 * @param {{onMore: () => unknown, loading: boolean, problem?: import('./api.js').Problem | null}} props
 */
export function More({ onMore, loading, problem = null }) {
  const place = /** @type {{current: HTMLElement | null}} */ (useRef(null));
  useEffect(() => {
    if (problem || loading || !place.current) return undefined;
    const observer = new IntersectionObserver(([seen]) => seen.isIntersecting && onMore(), { rootMargin: '200px' });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [onMore, loading, problem]);
  return html`<div class="more" ref=${place}>
    <${Trouble} problem=${problem} />
    <button type="button" class="plain" disabled=${loading} onClick=${onMore}>${t(loading ? 'loading' : problem ? 'again' : 'more')}</button>
  </div>`;
}

let said = 0;

/** Say something to who listens to the page instead of looking at it. @param {string} text */
export function announce(text) {
  const region = document.getElementById('said');
  if (!region) return;
  const number = ++said;
  region.textContent = '';
  // A region is read when it changes; the same text twice is a change only with a moment between.
  setTimeout(() => number === said && (region.textContent = text), 50);
}
