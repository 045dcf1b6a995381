// The wallet: what one has, what came and went, and what came back.

import { useEffect, useState } from 'preact/hooks';
import { call, patiently, Problem } from '../api.js';
import { isKey, t, when } from '../i18n.js';
import { usePages } from '../pages.js';
import { envelopePath, follow, url } from '../router.js';
import { current } from '../session.js';
import { Amount, html, More, Screen, Trouble } from '../ui.js';

/** @typedef {{entry_id: string, kind: string, amount_fen: number, envelope_id: string | null, at: string}} Entry */

/** @returns {{balance: number | null, problem: Problem | null}} */
export function useBalance() {
  const [state, setState] = useState(/** @type {{balance: number | null, problem: Problem | null}} */ ({ balance: null, problem: null }));
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    patiently(() => call('GET', 'me/wallet', { signal }), { signal }).then(
      (wallet) => setState({ balance: wallet.balance_fen, problem: null }),
      (problem) => signal.aborted || setState({ balance: null, problem }),
    );
    return () => controller.abort();
  }, []);
  return state;
}

/** @param {{user: string}} props */
export function Home({ user }) {
  const { balance, problem } = useBalance();
  const { items, done, problem: listProblem, more, loading } = /** @type {ReturnType<typeof usePages<Entry>>} */ (
    usePages('me/wallet/entries')
  );
  return html`<${Screen} title=${t('home')} hidden class="home">
    <section class="purse" aria-label=${t('balance')}>
      <p class="label">${t('balance')}</p>
      <p class="big">${balance === null ? html`<span class="amount">—</span>` : html`<${Amount} fen=${balance} />`}
        <span class="unit" aria-hidden="true">${t('yuan')}</span></p>
      <a class="gold" id="go-send" href=${url('#send')} onClick=${follow}>${t('send')}</a>
    </section>
    <${Trouble} problem=${problem} />
    ${current().players.length > 0 && html`<p class="foot"><a class="plain" id="go-room" href=${url('#room')} onClick=${follow}>${t('room.go')}</a></p>`}
    <${Refunds} user=${user} items=${items} />
    <h2 id="statement">${t('statement')}</h2>
    <ul class="rows" aria-labelledby="statement">
      ${items.map((entry) => html`<${Row} key=${entry.entry_id} entry=${entry} />`)}
    </ul>
    ${done && !items.length && html`<p class="empty">${t('statement.empty')}</p>`}
    ${!done && html`<${More} onMore=${more} loading=${loading} problem=${listProblem} />`}
  <//>`;
}

/** @param {{entry: Entry}} props */
function Row({ entry }) {
  const key = `entry.${entry.kind}`;
  const inside = html`
    <span class="what"><span>${t(isKey(key) ? key : 'entry.other')}</span><time datetime=${entry.at}>${when(entry.at)}</time></span>
    <${Amount} fen=${entry.amount_fen} sign class=${entry.amount_fen > 0 ? 'in' : 'out'} />`;
  if (!entry.envelope_id) return html`<li class="row">${inside}</li>`;
  const path = envelopePath(entry.envelope_id);
  return html`<li><a class="row" id=${`entry-${entry.entry_id}`} href=${url(path)} onClick=${follow}>${inside}</a></li>`;
}

/** What came back since one last looked. @param {{user: string, items: Entry[]}} props */
function Refunds({ user, items }) {
  const stored = `hongbao.refund.${user}`;
  const [seen, setSeen] = useState(() => localStorage.getItem(stored) ?? '0');
  const fresh = items.filter((one) => one.kind === 'refund' && BigInt(one.entry_id) > BigInt(seen));
  if (!fresh.length) return null;
  const dismiss = () => {
    localStorage.setItem(stored, fresh[0].entry_id);
    setSeen(fresh[0].entry_id);
    document.getElementById('go-send')?.focus();
  };
  return html`<section class="notice" role="status">
    <div><h2>${t('notice.refund')} <${Amount} fen=${fresh.reduce((all, one) => all + one.amount_fen, 0)} sign class="in" /></h2>
      <p>${t('notice.refund.text')}</p></div>
    <button type="button" class="plain" onClick=${dismiss}>${t('notice.ok')}</button>
  </section>`;
}
