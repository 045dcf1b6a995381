// How an envelope might split: a sample, drawn by the formulas with which the server draws the real one.

import { useMemo, useState } from 'preact/hooks';
import { t } from '../i18n.js';
import { MOST_FEN, MOST_SHARES, yuan } from '../money.js';
import { amounts } from '../split/ways.js';
import { html } from '../ui.js';

const BARS = 30;
const WIDTH = 300;
const HEIGHT = 96;

/** @param {{kind: 'equal' | 'double_mean', total: number, count: number}} props */
export function SplitPreview({ kind, total, count }) {
  const [draw, setDraw] = useState(0);
  const possible = count >= 1 && count <= MOST_SHARES && total >= count && total <= MOST_FEN;
  const shares = useMemo(() => {
    if (!possible) return [];
    const seed = crypto.getRandomValues(new Uint8Array(32));
    return amounts({ split: kind, split_version: 2, total_fen: total, count }, seed);
  }, [kind, total, count, possible, draw]);
  if (!possible) return html`<div class="split split-none" aria-hidden="true"><${Bars} shares=${[5, 9, 4, 7, 3, 8]} /></div>`;
  const [most, least] = [Math.max(...shares), Math.min(...shares)];
  return html`<div class="split">
    <h2>${t('send.split')}</h2>
    <${Bars} shares=${shares} />
    <p class="hint">${t('send.split.text', { most: yuan(most), least: yuan(least) })}
      ${count > BARS && html` · ${t('send.split.rest', { n: BARS })}`}</p>
    ${kind !== 'equal' && count > 1 && html`<button type="button" class="quiet" onClick=${() => setDraw(draw + 1)}>${t('send.split.again')}</button>`}
  </div>`;
}

/**
 * Bars of shares; those that stand in `left` are pale.
 * @param {{shares: number[], taken?: number, best?: number}} props
 */
export function Bars({ shares, taken = shares.length, best = shares.indexOf(Math.max(...shares)) }) {
  const drawn = shares.slice(0, BARS);
  const step = WIDTH / drawn.length;
  const width = Math.min(step * 0.72, 28);
  const most = Math.max(...drawn, 1);
  return html`<svg class="bars" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
    ${drawn.map((fen, i) => {
      const height = Math.max(3, (fen / most) * HEIGHT);
      const kind = i >= taken ? 'bar-left' : i === best ? 'bar-best' : 'bar';
      return html`<rect key=${i} class=${kind} x=${i * step + (step - width) / 2} y=${HEIGHT - height} width=${width} height=${height} rx=${Math.min(3, width / 2)} />`;
    })}
  </svg>`;
}
