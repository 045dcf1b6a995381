// Envelopes sent and received, by page. The gateway of an older release names less of each; what is there is shown.

import { isKey, t, when } from '../i18n.js';
import { yuan } from '../money.js';
import { usePages } from '../pages.js';
import { envelopePath, follow, url } from '../router.js';
import { Amount, classes, html, More, Name, Screen } from '../ui.js';

/**
 * @typedef {object} Item
 * @property {string} envelope_id
 * @property {number} amount_fen
 * @property {string} at
 * @property {string=} share_id
 * @property {string=} sender
 * @property {string=} greeting
 * @property {string=} kind
 * @property {string=} status
 * @property {number=} count
 * @property {number=} claimed_count
 * @property {number=} total_fen
 * @property {number=} claimed_fen
 * @property {number=} refund_fen
 * @property {boolean | {user?: string}=} best_luck
 */

/** @param {{role: 'sent' | 'received', user: string}} props */
export function History({ role, user }) {
  const { items, done, problem, more, loading } = /** @type {ReturnType<typeof usePages<Item>>} */ (
    usePages(`me/envelopes?role=${role}`)
  );
  const sum = items.reduce((all, one) => all + one.amount_fen, 0);
  const lucky = items.filter((one) => isLucky(one, user)).length;
  return html`<${Screen} title=${t('history')} class="history">
    <nav class="tabs" aria-label=${t('history')}>
      ${/** @type {const} */ (['received', 'sent']).map((one) => html`<a key=${one} id=${`tab-${one}`} href=${url(`#${one}`)}
        aria-current=${one === role ? 'page' : undefined} onClick=${follow}>${t(one)}</a>`)}
    </nav>
    ${items.length > 0 && html`<p class="sum" aria-live="polite">${t('history.sum', { n: items.length, sum: yuan(sum) })}
      ${role === 'received' && lucky > 0 && html`<span> · ${t('history.best', { n: lucky })}</span>`}</p>`}
    <ul class="rows">
      ${items.map((item) => html`<${Row} key=${item.envelope_id} item=${item} role=${role} user=${user} />`)}
    </ul>
    ${done && !items.length && html`<p class="empty">${t(`history.${role}.empty`)}</p>`}
    ${!done && html`<${More} onMore=${more} loading=${loading} problem=${problem} />`}
  <//>`;
}

/** @param {Item} item @param {string} user */
function isLucky({ best_luck: best }, user) {
  return best === true || (typeof best === 'object' && best?.user === user);
}

/** @param {{item: Item, role: 'sent' | 'received', user: string}} props */
function Row({ item, role, user }) {
  const { status = '', kind = '', count, claimed_count: claimed } = item;
  const [statusKey, kindKey] = [`status.${status}`, `kind.${kind}`];
  const title = role === 'received' && item.sender ? html`<${Name} user=${item.sender} />` : item.greeting || t(role);
  return html`<li><a class="row" id=${`of-${item.envelope_id}`} href=${url(envelopePath(item.share_id ?? item.envelope_id))} onClick=${follow}>
    <span class="mini" aria-hidden="true"></span>
    <span class="what">
      <span class="line" dir="auto">${title}${role === 'received' && isLucky(item, user) && html` <span class="crown">${t('envelope.best')}</span>`}</span>
      <span class="sub">${isKey(kindKey) && html`<span>${t(kindKey)}</span>`}
        ${count !== undefined && claimed !== undefined && role === 'sent' && html`<span>${claimed}/${count}</span>`}
        ${isKey(statusKey) && role === 'sent' && html`<span>${t(statusKey)}</span>`}
        <time datetime=${item.at}>${when(item.at)}</time></span>
    </span>
    <${Amount} fen=${item.amount_fen} class=${classes(role === 'received' && 'in')} />
  </a></li>`;
}
