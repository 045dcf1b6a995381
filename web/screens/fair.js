// The fair-split check, made in the browser: every claim is fetched, every share computed again from the seed.

import { useEffect, useState } from 'preact/hooks';
import { call, patiently, Problem } from '../api.js';
import { t } from '../i18n.js';
import { yuan } from '../money.js';
import { verify } from '../split/verify.js';
import { html, Trouble } from '../ui.js';
import { Bars } from './preview.js';

const PAGE = 1_000;
const SHOWN = 5;

/** @param {{path: string, detail: any}} props */
export function FairCheck({ path, detail }) {
  const [found, setFound] = useState(/** @type {ReturnType<typeof verify> | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    check(path, signal).then(setFound, (error) => {
      if (signal.aborted) return;
      setProblem(error instanceof Problem ? error : new Problem('invalid', String(error), 'never'));
    });
    return () => controller.abort();
  }, [path]);
  const holds = found && !found.mismatches.length;
  return html`<p>${t('fair.text')}</p>
    <${Trouble} problem=${problem} />
    <div role="status">
      ${!found && !problem && html`<p>${t('fair.running')}</p>`}
      ${found && html`<p class=${holds ? 'verdict yes' : 'verdict no'}>${holds ? t('fair.yes', { n: found.amounts.length }) : t('fair.no', { n: found.mismatches.length })}</p>
        <ul>${found.mismatches.slice(0, SHOWN).map((one) => html`<li>${t(`fair.${one.code}`, {
          n: (one.seq ?? 0) + 1, said: yuan(one.said ?? 0), given: yuan(one.given ?? 0),
        })}</li>`)}</ul>`}
    </div>
    ${found && html`<${Bars} shares=${found.amounts} taken=${detail.claimed_count} />
      <p class="legend"><span class="key key-taken">${t('fair.taken')}</span>${detail.claimed_count < detail.count && html`<span class="key key-left">${t('fair.left')}</span>`}</p>`}
    <dl class="proof"><dt>${t('fair.split')}</dt><dd>${detail.split} v${detail.split_version}</dd>
      <dt>${t('fair.seed')}</dt><dd>${detail.split_seed}</dd><dt>${t('fair.hash')} (SHA-256)</dt><dd>${detail.split_commitment}</dd></dl>`;
}

/** @param {string} path @param {AbortSignal} signal */
async function check(path, signal) {
  const claims = [];
  for (let cursor = ''; ; ) {
    const page = await patiently(() => call('GET', `${path}?limit=${PAGE}${cursor && `&cursor=${cursor}`}`, { signal }), { signal });
    claims.push(...page.claims);
    if (!page.next_cursor) return verify({ ...page, claims });
    cursor = page.next_cursor;
  }
}
