// Sending: the form, its preview, and a create that is never paid twice.

import { useRef, useState } from 'preact/hooks';
import { call, newKey, patiently, Problem } from '../api.js';
import { now } from '../clock.js';
import { t } from '../i18n.js';
import { yuan } from '../money.js';
import { go } from '../router.js';
import { body, isEach, MODES, shares, total, wrongs } from '../terms.js';
import { Amount, announce, described, Field, html, Screen, Trouble } from '../ui.js';
import { Coin, Cover, COVERS, hasOwn, imageOf, keepOwn, OWN } from './cover.js';
import { useBalance } from './home.js';
import { SplitPreview } from './preview.js';

/** @typedef {import('../terms.js').Draft} Draft */
/** @typedef {{key: string, body: string, cover: string}} Pending what was sent, until its answer is known */

const TAP_MS = 250;
const COVER = 'hongbao.last-cover';

/** In the order in which they stand. */
const FIELDS = /** @type {const} */ (['to', 'count', 'amount', 'password', 'greeting', 'opens_at']);
/** @type {Draft} */
const EMPTY = { mode: 'lucky', amount: '', count: '', to: '', password: '', greeting: '', later: false, opens_at: '' };

/** @param {{user: string}} props */
export function Send({ user }) {
  const stored = `hongbao.pending.${user}`;
  const { balance } = useBalance();
  const [draft, setDraft] = useState(EMPTY);
  const [cover, setCover] = useState(() => localStorage.getItem(COVER) ?? COVERS[0]);
  const [touched, setTouched] = useState(/** @type {Set<string>} */ (new Set()));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [busy, setBusy] = useState(false);
  // Also after a reload: as long as nobody knows whether it was sent, it is sent again under its own key.
  const [pending, setPending] = useState(/** @returns {Pending | null} */ () => JSON.parse(sessionStorage.getItem(stored) ?? 'null'));
  const lastKey = useRef({ key: '', body: '' });
  const all = wrongs(draft, balance, now());
  const shown = Object.fromEntries(Object.entries(all).filter(([name]) => touched.has(name)));
  const sum = total(draft);

  /** @param {Partial<Draft>} change */
  const set = (change) => setDraft((old) => ({ ...old, ...change }));
  /** @param {string} name */
  const touch = (name) => setTouched((old) => new Set([...old, name]));
  /** @param {'amount' | 'count' | 'to' | 'password' | 'greeting' | 'opens_at'} name */
  const input = (name) => ({
    ...described(name, shown[name]),
    value: draft[name],
    onInput: (/** @type {any} */ event) => set({ [name]: event.currentTarget.value }),
    // Later: a sentence that appears moves what is below it, and a tap that has begun there would miss.
    onBlur: () => draft[name] && setTimeout(() => touch(name), TAP_MS),
  });

  /** @param {Pending} asked */
  const send = async (asked) => {
    setBusy(true);
    setProblem(null);
    setPending(null);
    sessionStorage.setItem(stored, JSON.stringify(asked));
    localStorage.setItem(COVER, asked.cover);
    try {
      const create = () => call('POST', 'envelopes', { body: JSON.parse(asked.body), key: asked.key });
      const made = await patiently(create, { unknown: asked === pending });
      sessionStorage.removeItem(stored);
      go(`#share/${made.share_id ?? made.envelope_id}`, { replace: true });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Refused for good: nothing was sent, and the next try is another one.
      if (error.unsure) setPending(asked);
      else sessionStorage.removeItem(stored);
      setProblem(error);
      setBusy(false);
    }
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (busy) return;
    setTouched(new Set(FIELDS));
    const first = FIELDS.find((name) => all[name]);
    if (first) {
      document.getElementById(first)?.focus();
      announce(all[first] ?? '');
      return;
    }
    const text = JSON.stringify(body(draft));
    // The same envelope, sent again after a refusal, is the same create.
    if (lastKey.current.body !== text) lastKey.current = { key: newKey(), body: text };
    send({ ...lastKey.current, cover });
  };

  if (pending) {
    return html`<${Screen} title=${t('send.unsure')} class="calm">
      <p>${t('send.unsure.text')}</p>
      <${Trouble} problem=${problem} />
      <button type="button" class="primary" onClick=${() => send(pending)}>${t('again')}</button>
      <button type="button" class="plain" onClick=${() => { sessionStorage.removeItem(stored); go('#sent'); }}>${t('send.drop')}</button>
    <//>`;
  }
  const count = shares(draft);
  return html`<${Screen} title=${t('send')} back class="send">
    <form onSubmit=${submit} noValidate>
      <fieldset class="modes"><legend class="vh">${t('send.kind')}</legend>
        ${MODES.map((mode) => html`<label key=${mode}><input type="radio" name="mode" value=${mode} checked=${draft.mode === mode}
          onChange=${() => set({ mode })} /><span>${t(`kind.${mode}`)}</span></label>`)}
        <p class="hint">${t(`kind.${draft.mode}.hint`)}</p>
      </fieldset>
      <div class="card">
        ${draft.mode === 'named' && html`<${Field} id="to" label=${t('send.to')} error=${shown.to} hint=${t('send.to.hint')}>
          <input ...${input('to')} autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="xiaohong, bob" /><//>`}
        ${draft.mode !== 'named' && html`<${Field} id="count" label=${t('send.count')} error=${shown.count} suffix=${t('send.unit')}>
          <input ...${input('count')} inputmode="numeric" autocomplete="off" placeholder="10" /><//>`}
        <${Field} id="amount" label=${t(isEach(draft.mode) ? 'send.each' : 'send.total')} error=${shown.amount} suffix=${t('yuan')}>
          <input ...${input('amount')} inputmode="decimal" autocomplete="off" placeholder="0.00" /><//>
        ${draft.mode === 'password' && html`<${Field} id="password" label=${t('send.password')} error=${shown.password} hint=${t('send.password.hint')}>
          <input ...${input('password')} autocomplete="off" dir="auto" placeholder="年年有余" /><//>`}
        <${Field} id="greeting" label=${t('send.greeting')} error=${shown.greeting}>
          <input ...${input('greeting')} autocomplete="off" dir="auto" placeholder=${t('send.greeting.default')} /><//>
        <div class="field"><label class="field-line switch"><span>${t('send.later')}</span>
          <input type="checkbox" role="switch" checked=${draft.later} onChange=${(/** @type {any} */ event) => set({ later: event.currentTarget.checked })} /></label></div>
        ${draft.later && html`<${Field} id="opens_at" label=${t('send.opens_at')} error=${shown.opens_at} hint=${t('send.opens_at.hint')}>
          <input type="datetime-local" ...${input('opens_at')} /><//>`}
      </div>
      <${CoverPicker} cover=${cover} onChoose=${setCover} />
      <section class="previews" aria-label=${t('send.preview')}>
        <${Cover} small sender=${user} greeting=${draft.greeting || t('send.greeting.default')} cover=${cover}><${Coin} still label="" /><//>
        <${SplitPreview} kind=${isEach(draft.mode) ? 'equal' : 'double_mean'} total=${sum} count=${count ?? 0} />
      </section>
      <${Trouble} problem=${problem} />
      <div class="pay">
        <p class="big"><${Amount} fen=${sum} /><span class="unit" aria-hidden="true">${t('yuan')}</span></p>
        <button type="submit" class="primary" id="pay" aria-busy=${busy}>${t(busy ? 'send.going' : 'send.go')}</button>
        ${balance !== null && html`<p class="hint">${t('balance')} ${yuan(balance)} ${t('yuan')}</p>`}
      </div>
    </form>
  <//>`;
}

/** @param {{cover: string, onChoose: (cover: string) => void}} props */
function CoverPicker({ cover, onChoose }) {
  const [own, setOwn] = useState(hasOwn);
  const [wrong, setWrong] = useState(false);
  /** @param {any} event */
  const take = async (event) => {
    const [file] = event.currentTarget.files;
    if (!file) return;
    const kept = await keepOwn(file);
    setWrong(!kept);
    setOwn(hasOwn());
    if (kept) onChoose(OWN);
  };
  const choices = own ? [...COVERS, OWN] : COVERS;
  return html`<fieldset class="covers"><legend>${t('send.cover')}</legend>
    <div class="cover-row">
      ${choices.map((one) => html`<label key=${one} class="cover-choice">
        <input type="radio" name="cover" checked=${cover === one} onChange=${() => onChoose(one)}
          aria-label=${one === OWN ? t('send.cover.own') : t('send.cover.n', { n: one })} />
        <img src=${imageOf(one)} alt="" width="48" height="64" />
      </label>`)}
      <label class="cover-choice cover-add"><input type="file" accept="image/*" aria-label=${t('send.cover.own')} onChange=${take} /><span aria-hidden="true">+</span></label>
    </div>
    ${wrong && html`<p class="error" role="alert">${t('send.cover.bad')}</p>`}
    ${cover === OWN && html`<p class="hint">${t('send.cover.own.hint')}</p>`}
  </fieldset>`;
}
