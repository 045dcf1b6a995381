// The red cover: whose it is, the greeting, and the round gold 开 that spins while the server decides. Four images are
// ours, by number; a sender's own image is kept in their browser.

import { t } from '../i18n.js';
import { Around, classes, Face, html } from '../ui.js';

export const COVERS = /** @type {const} */ (['1', '2', '3', '4']);
export const OWN = 'own';
const STORED = 'hongbao.cover';
const WIDTH = 480;
const HEIGHT = 640;
const MOST_CHARS = 200_000;

/** @param {string} cover from a link: anything @returns {string} one that there is */
export const known = (cover) => (/** @type {readonly string[]} */ (COVERS).includes(cover) ? cover : COVERS[0]);

/** @param {string} cover @returns {string} the address of its image */
export function imageOf(cover) {
  const own = cover === OWN ? localStorage.getItem(STORED) : null;
  if (own) return own;
  // The import map has the names of this version's files, also of those that are no modules.
  return import.meta.resolve(`../covers/${known(cover)}.svg`);
}

export const hasOwn = () => localStorage.getItem(STORED) !== null;

/** @param {File} file @returns {Promise<boolean>} whether it is an image that can be kept */
export async function keepOwn(file) {
  try {
    const image = await createImageBitmap(file);
    const scale = Math.max(WIDTH / image.width, HEIGHT / image.height);
    const [width, height] = [image.width * scale, image.height * scale];
    const canvas = Object.assign(document.createElement('canvas'), { width: WIDTH, height: HEIGHT });
    canvas.getContext('2d')?.drawImage(image, (WIDTH - width) / 2, (HEIGHT - height) / 2, width, height);
    const text = [0.85, 0.7, 0.5].map((quality) => canvas.toDataURL('image/jpeg', quality)).find((one) => one.length < MOST_CHARS);
    if (!text) return false;
    localStorage.setItem(STORED, text);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {{sender: string, greeting: string, cover: string, small?: boolean, deep?: boolean, away?: boolean,
 *   children?: import('preact').ComponentChildren}} props `deep`: with room for a field below the coin; `away`: it parts
 */
export function Cover({ sender, greeting, cover, small, deep, away, children }) {
  return html`<div class=${classes('cover', small && 'cover-small', deep && 'cover-deep', away && 'cover-away')} aria-hidden=${away ? 'true' : undefined} inert=${Boolean(away)}>
    <div class="cover-bottom"></div>
    <div class="cover-top"><img src=${imageOf(cover)} alt="" width="480" height="640" /></div>
    ${sender && html`<div class="cover-text">
      <p class="cover-sender"><${Face} user=${sender} /><span class="line"><${Around} text="envelope.sent" user=${sender} /></span></p>
      <p class="cover-greeting" dir="auto">${greeting}</p>
    </div>`}
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
