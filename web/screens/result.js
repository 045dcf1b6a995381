// An envelope that is open: what one got, who else got what, and what its sender may do with it.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call, Problem } from '../api.js';
import { duration, t, when } from '../i18n.js';
import { query } from '../live.js';
import { yuan } from '../money.js';
import { follow, url } from '../router.js';
import { Amount, Around, classes, Dialog, Face, html, More, Name, Trouble } from '../ui.js';

const SUMMARY_MS = 1_000;

/**
 * @param {{path: string, detail: any, claims: import('../live.js').Claims, own: {amount_fen: number} | null, user: string,
 *   note: string, onDetail: (detail: any) => void}} props `path`: of the envelope below v1
 */
export function Result({ path, detail, claims, own, user, note, onDetail }) {
  const mine = detail.sender === user;
  return html`<div class="result">
    <header class="result-top"><div class="arc" aria-hidden="true"></div></header>
    <section class="win" tabindex="-1" id="win">
      <p class="of"><${Face} user=${detail.sender} /><span class="line"><${Around} text="envelope.of" user=${detail.sender} /></span></p>
      <p class="greeting" dir="auto">${detail.greeting}</p>
      ${own && html`<p class="big"><${Amount} fen=${own.amount_fen} /><span class="unit" aria-hidden="true">${t('yuan')}</span></p>
        <p class="saved">${t('envelope.saved')}</p>`}
      ${!own && note && html`<p class="late">${note}</p>`}
    </section>
    ${mine && html`<${Sender} detail=${detail} onDetail=${onDetail} />`}
    <${List} path=${path} detail=${detail} claims=${claims} user=${user} />
    <${Fair} path=${path} detail=${detail} />
    ${!mine && html`<p class="foot"><a class="plain" href=${url('#send')} onClick=${follow}>${t('envelope.another')}</a></p>`}
  </div>`;
}

/** @param {{path: string, detail: any, claims: import('../live.js').Claims, user: string}} props */
function List({ path, detail, claims, user }) {
  const [, redraw] = useState(0);
  const [state, setState] = useState(/** @type {{loading: boolean, problem: Problem | null}} */ ({ loading: false, problem: null }));
  const rows = claims.newest();
  const next = claims.next();
  const more = async () => {
    const page = claims.next();
    if (!page) return;
    setState({ loading: true, problem: null });
    try {
      const seen = await call('GET', path + query(page));
      claims.add(seen.claims, seen.claimed_count);
      setState({ loading: false, problem: null });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setState({ loading: false, problem: error });
    }
    redraw((n) => n + 1);
  };
  const best = detail.best_luck?.seq;
  return html`<section class="list" aria-labelledby="list-title">
    <h2 id="list-title" class="vh">${t('envelope.list')}</h2>
    <${Summary} text=${summary(detail, claims)} />
    ${detail.refund_fen > 0 && detail.sender !== user && html`<p class="hint">${t('envelope.refund.other', { sum: yuan(detail.refund_fen) })}</p>`}
    ${!claims.count && detail.status === 'open' && html`<p class="empty">${t('envelope.nobody')}</p>`}
    <ol class="rows claims" reversed start=${claims.count}>
      ${rows.map((one) => html`<li key=${one.seq} class=${classes('row', one.user === user && 'me')}>
        <${Face} user=${one.user} />
        <span class="what"><span class="line"><${Name} user=${one.user} /></span><time datetime=${one.claimed_at}>${when(one.claimed_at, true)}</time></span>
        <span class="got"><${Amount} fen=${one.amount_fen} />${one.seq === best && html`<span class="crown"><svg viewBox="0 0 20 16" aria-hidden="true"><path d="M2 14h16L19 4l-5 4-4-7-4 7-5-4z" /></svg>${t('envelope.best')}</span>`}</span>
      </li>`)}
    </ol>
    ${next && html`<${More} onMore=${more} loading=${state.loading} problem=${state.problem} />`}
  </section>`;
}

/** @param {any} detail @param {import('../live.js').Claims} claims */
function summary(detail, claims) {
  const { status, count, claimed_fen: got, total_fen: sum } = detail;
  const claimed = Math.max(claims.count, detail.claimed_count);
  const last = claims.known.get(count - 1);
  if (status !== 'sold_out') return t('envelope.summary.of', { claimed, count, got: yuan(got), sum: yuan(sum) });
  const from = Math.max(Date.parse(detail.created_at), Date.parse(detail.opens_at ?? detail.created_at));
  const gone = last ? t('envelope.gone', { time: duration(Date.parse(last.claimed_at) - from) }) : '';
  return [t('envelope.summary', { claimed, count, sum: yuan(sum) }), gone].filter(Boolean).join(document.documentElement.lang === 'en' ? ', ' : '，');
}

/** Seen at once, and read out once a second at most, however fast it goes. @param {{text: string}} props */
function Summary({ text }) {
  const [shown, setShown] = useState(text);
  const changed = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, changed.current + SUMMARY_MS - Date.now());
    const timer = setTimeout(() => {
      changed.current = Date.now();
      setShown(text);
    }, wait);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<p class="sum">${text}</p><p class="vh" aria-live="polite">${shown}</p>`;
}

/** @param {{path: string, detail: any}} props */
function Fair({ path, detail }) {
  const [View, setView] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const load = () => import('./fair.js').then(
    ({ FairCheck }) => setView(() => FairCheck),
    () => setProblem(new Problem('offline', '', 'repeat')),
  );
  if (!detail.split_seed) return html`<p class="foot hint">${t('envelope.check.later')}</p>`;
  return html`<p class="foot"><button type="button" id="fair" class="plain" onClick=${load}>${t('envelope.check')}</button></p>
    <${Trouble} problem=${problem} />
    ${View && html`<${Dialog} title=${t('fair.title')} onClose=${() => setView(null)}><${View} path=${path} detail=${detail} /><//>`}`;
}

/** @param {{detail: any, onDetail: (detail: any) => void}} props */
function Sender({ detail, onDetail }) {
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const going = detail.status === 'open' || detail.status === 'scheduled';
  const share = useMemo(() => url(`#share/${detail.share_id ?? detail.envelope_id}`), [detail.share_id, detail.envelope_id]);
  const cancel = async () => {
    setAsking(false);
    try {
      onDetail(await call('POST', `envelopes/${detail.envelope_id}/cancel`));
      setProblem(null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<section class="sender">
    ${detail.refund_fen > 0 && html`<p class="notice">${t('envelope.refund', { sum: yuan(detail.refund_fen) })}</p>`}
    <${Trouble} problem=${problem} />
    ${going && html`<p class="actions">
      <a class="primary" id="share" href=${share} onClick=${follow}>${t('envelope.share')}</a>
      <button type="button" class="plain" id="cancel" onClick=${() => setAsking(true)}>${t('envelope.cancel')}</button></p>`}
    ${asking && html`<${Dialog} title=${t('envelope.cancel')} onClose=${() => setAsking(false)}>
      <p>${t('envelope.cancel.ask')}</p>
      <p class="actions"><button type="button" class="primary" onClick=${cancel}>${t('envelope.cancel.yes')}</button>
        <button type="button" class="plain" onClick=${() => setAsking(false)}>${t('envelope.cancel.no')}</button></p><//>`}
  </section>`;
}
