// Who one is: the users to play with, or what keeps somebody outside.

import { useState } from 'preact/hooks';
import { Problem } from '../api.js';
import { t } from '../i18n.js';
import { answerOffer, play, retry } from '../session.js';
import { Face, html, Name, Screen, Trouble } from '../ui.js';

/** @param {{session: import('../session.js').Session}} props */
export function SignIn({ session }) {
  const { state, user, players } = session;
  if (state === 'ask') return html`<${Offer} user=${user} />`;
  if (state === 'offline') {
    return html`<${Screen} title=${t('signin.offline')} class="calm">
      <p>${t('signin.offline.text')}</p>
      <button type="button" class="primary" onClick=${retry}>${t('again')}</button>
    <//>`;
  }
  const lost = state === 'lost';
  if (!players.length) {
    return html`<${Screen} title=${t(lost ? 'signin.lost' : 'signin.out')} class="calm">
      <p>${t(lost ? 'signin.lost.text' : 'signin.out.text')}</p>
    <//>`;
  }
  return html`<${Screen} title=${t(lost ? 'signin.lost' : 'signin.title')} class="signin">
    <p class="lead">${t(lost ? 'signin.lost.text' : 'signin.hint')}</p>
    <${Players} names=${players} />
  <//>`;
}

/** @param {{names: string[]}} props */
function Players({ names }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [busy, setBusy] = useState('');
  /** @param {string} name */
  const choose = async (name) => {
    setBusy(name);
    try {
      await play(name);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy('');
    }
  };
  return html`<${Trouble} problem=${problem} />
    <ul class="players">
      ${names.map((name) => html`<li key=${name}>
        <button type="button" disabled=${Boolean(busy)} aria-busy=${busy === name} onClick=${() => choose(name)}>
          <${Face} user=${name} large /><${Name} user=${name} />
        </button>
      </li>`)}
    </ul>`;
}

/** @param {{user: string}} props */
function Offer({ user }) {
  return html`<${Screen} title=${t('signin.ask', { user })} class="calm">
    <${Face} user=${user} large />
    <p>${t('signin.ask.text', { user })}</p>
    <button type="button" class="primary" onClick=${() => answerOffer(true)}>${t('signin.ask.yes', { user })}</button>
    <button type="button" class="plain" onClick=${() => answerOffer(false)}>${t('signin.ask.no')}</button>
  <//>`;
}
