// A new envelope on its way to others: link, QR code, the phone's own way to share.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { generate } from 'lean-qr';
import { call, patiently } from '../api.js';
import { t } from '../i18n.js';
import { envelopePath, follow, url } from '../router.js';
import { announce, html, Screen } from '../ui.js';
import { Coin, Cover, COVERS, known } from './cover.js';

/** @param {{id: string, user: string}} props `id`: the share ID */
export function Share({ id, user }) {
  const cover = useMemo(() => localStorage.getItem('hongbao.last-cover') ?? COVERS[0], []);
  const [detail, setDetail] = useState(/** @type {any} */ (null));
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    // The link is known without it; only the words on the cover wait for it.
    patiently(() => call('GET', `envelopes/${encodeURIComponent(id)}`, { signal }), { signal }).then(setDetail, () => {});
    return () => controller.abort();
  }, [id]);
  const path = envelopePath(id, known(cover) === COVERS[0] ? '' : cover);
  const link = url(path);
  const copy = async () => {
    const field = /** @type {HTMLInputElement} */ (document.getElementById('link'));
    try {
      await navigator.clipboard.writeText(link);
    } catch {
      // Without https, or where it is forbidden: what is selected can be copied.
      field.select();
      document.execCommand('copy');
    }
    setCopied(true);
    announce(t('share.copied'));
  };
  const greeting = detail?.greeting ?? '';
  return html`<${Screen} title=${t('share.title')} back class="share">
    <p class="lead">${t('share.text')}${detail?.to && html` ${t('share.named')}`}${detail?.password_required && html` ${t('share.password')}`}</p>
    <div class="share-pair">
      <${Cover} small sender=${user} greeting=${greeting} cover=${cover}><${Coin} still label="" /><//>
      <${Code} text=${link} />
    </div>
    <p class="link"><label class="vh" for="link">${t('share.link')}</label>
      <input id="link" readonly value=${link} dir="ltr" onFocus=${(/** @type {any} */ event) => event.currentTarget.select()} /></p>
    <p class="actions">
      ${'share' in navigator && html`<button type="button" class="primary" id="native"
        onClick=${() => navigator.share({ title: t('title'), text: greeting, url: link }).catch(() => {})}>${t('share.native')}</button>`}
      <button type="button" class=${'share' in navigator ? 'plain' : 'primary'} id="copy" onClick=${copy}>${t(copied ? 'share.copied' : 'share.copy')}</button>
      <a class="plain" id="open" href=${link} onClick=${follow}>${t('share.open')}</a>
    </p>
  <//>`;
}

/** @param {{text: string}} props */
function Code({ text }) {
  const { size, path } = useMemo(() => {
    const code = generate(text);
    let drawn = '';
    for (let y = 0; y < code.size; y++) {
      for (let x = 0; x < code.size; x++) {
        let run = 0;
        while (code.get(x + run, y)) run++;
        if (run) drawn += `M${x} ${y}h${run}v1h-${run}z`;
        x += run;
      }
    }
    return { size: code.size, path: drawn };
  }, [text]);
  return html`<svg class="qr" viewBox="-3 -3 ${size + 6} ${size + 6}" role="img" aria-label=${t('share.qr')} shape-rendering="crispEdges">
    <rect x="-3" y="-3" width=${size + 6} height=${size + 6} fill="#fff" /><path d=${path} fill="#1d0b0d" /></svg>`;
}
