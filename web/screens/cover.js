// The red cover: whose it is, the greeting, and the round gold 开 that spins while the server decides.

import { imageOf } from '../covers.js';
import { t } from '../i18n.js';
import { Around, classes, Face, html } from '../ui.js';

/**
 * @param {{sender: string, greeting: string, cover: string, small?: boolean, deep?: boolean, away?: boolean,
 *   children?: import('preact').ComponentChildren}} props `deep`: with room for a field below the coin; `away`: it parts
 */
export function Cover({ sender, greeting, cover, small, deep, away, children }) {
  return html`<div class=${classes('cover', small && 'cover-small', deep && 'cover-deep', away && 'cover-away')} aria-hidden=${away ? 'true' : undefined} inert=${Boolean(away)}>
    <div class="cover-bottom"></div>
    <div class="cover-top"><img src=${imageOf(cover)} alt="" width="480" height="640" /></div>
    <div class="cover-text">
      <p class="cover-sender"><${Face} user=${sender} /><span class="line"><${Around} text="envelope.sent" user=${sender} /></span></p>
      <p class="cover-greeting" dir="auto">${greeting}</p>
    </div>
    <div class="cover-foot">${children}</div>
  </div>`;
}

/** @param {{label: string, spinning?: boolean, disabled?: boolean, still?: boolean}} props */
export function Coin({ label, spinning, disabled, still }) {
  const face = html`<span class="coin-face" lang="zh" aria-hidden="true">${t('envelope.open')}</span>`;
  if (still) return html`<span class="coin" aria-hidden="true">${face}</span>`;
  return html`<button type="submit" id="coin" class=${classes('coin', spinning && 'spinning')} aria-label=${label}
    aria-busy=${spinning ? 'true' : undefined} aria-disabled=${disabled || spinning ? 'true' : undefined}>${face}</button>`;
}
