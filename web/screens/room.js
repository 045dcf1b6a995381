// A group chat: envelopes that name everybody here come and go, and one sees who opens what as it happens. The room is
// made of what the API has: the list of what waits for one, and the live stream.

import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { call, newKey, pause, patiently, Problem } from '../api.js';
import { Chat, KEPT } from '../chat.js';
import { t } from '../i18n.js';
import { watch } from '../live.js';
import { parseCount, parseFen, yuan } from '../money.js';
import { envelopePath, follow, url } from '../router.js';
import { announce, classes, described, Face, Field, html, Name, Screen, Trouble } from '../ui.js';

const LOOK_MS = 1_500;
const FINAL = new Set(['sold_out', 'expired', 'canceled']);

/** @typedef {import('../chat.js').Item} Item */
/** @typedef {import('../chat.js').Line} Line */

/** @param {{user: string}} props */
export function Room({ user }) {
  const chat = useRef(new Chat(user)).current;
  const [, redraw] = useReducer((/** @type {number} */ n) => n + 1, 0);
  const [people, setPeople] = useState(/** @type {string[]} */ ([]));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const end = /** @type {{current: HTMLElement | null}} */ (useRef(null));

  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const look = async () => {
      const ask = (/** @type {string} */ path) => patiently(() => call('GET', path, { signal }), { signal });
      let begun = false;
      for (;;) {
        try {
          if (!begun) {
            setPeople((await ask('play')).users);
            for (const role of ['received', 'sent']) chat.take((await ask(`me/envelopes?role=${role}&limit=5`)).items, false);
            begun = true;
          }
          const { items } = await ask(`me/envelopes?role=waiting&limit=${KEPT}`);
          if (chat.take(items, true)) announce(t('room.news'));
          setProblem(null);
        } catch (error) {
          if (!(error instanceof Problem)) throw error;
          setProblem(error);
        }
        redraw(0);
        await pause(LOOK_MS, signal);
      }
    };
    look().catch((error) => {
      if (!signal.aborted && error instanceof Problem) setProblem(error);
    });
    return () => controller.abort();
  }, []);

  const ids = [...chat.items.values()].filter((one) => !FINAL.has(one.status ?? '')).map((one) => one.envelope_id).join(' ');
  useEffect(() => {
    const ends = ids.split(' ').filter(Boolean).map((id) => watch(id, (frame) => {
      chat.hear(frame);
      redraw(0);
    }));
    return () => ends.forEach((stop) => stop());
  }, [ids]);

  const last = chat.lines.at(-1)?.key;
  useEffect(() => {
    const box = /** @type {HTMLElement} */ (end.current?.closest('.screen'));
    const far = box.scrollHeight - box.clientHeight - box.scrollTop;
    // Who reads further up is left where they are.
    if (far < 400) end.current?.scrollIntoView({ block: 'end' });
  }, [last]);

  return html`<${Screen} title=${t('room.title', { n: people.length })} back class="room">
    <${Trouble} problem=${problem} />
    ${!chat.lines.length && html`<p class="empty">${t('room.empty')}</p>`}
    <ol class="chat" aria-label=${t('room')}>
      ${chat.lines.map((line) => html`<${ChatLine} key=${line.key} line=${line} chat=${chat} />`)}
    </ol>
    <${Composer} user=${user} people=${people} onSent=${(/** @type {Item} */ made) => { chat.take([made], false); redraw(0); }} />
    <div ref=${end} class="room-end"></div>
  <//>`;
}

/** @param {{line: Line, chat: Chat}} props */
function ChatLine({ line: { item, who = '', from = '' }, chat }) {
  if (!item) {
    const [before, between, after] = t('room.opened', { who: '\u0000', from: '\u0000' }).split('\u0000');
    return html`<li class="chat-note">${before}<${Name} user=${who} />${between}<${Name} user=${from} />${after}</li>`;
  }
  const mine = item.sender === chat.user;
  const waits = chat.waiting.has(item.envelope_id);
  const over = FINAL.has(item.status ?? '');
  const state = over ? t(item.status === 'sold_out' ? 'room.gone' : item.status === 'canceled' ? 'status.canceled' : 'status.expired')
    : t('room.left', { claimed: item.claimed_count ?? 0, count: item.count ?? '?' });
  return html`<li class=${classes('chat-item', mine && 'chat-mine')}>
    <${Face} user=${item.sender ?? '?'} />
    <div class="chat-said">
      <p class="sub"><${Name} user=${item.sender ?? ''} /></p>
      <a class=${classes('bubble', (over || !waits) && 'bubble-pale')} id=${`bubble-${item.envelope_id}`}
        href=${url(envelopePath(item.envelope_id))} onClick=${follow}>
        <span class="mini" aria-hidden="true"></span>
        <span class="what"><span class="line" dir="auto">${item.greeting}</span><span class="bubble-state">${state}</span></span>
      </a>
    </div>
  </li>`;
}

/** @param {{user: string, people: string[], onSent: (made: Item) => void}} props */
function Composer({ user, people, onSent }) {
  const [amount, setAmount] = useState('8.88');
  const [count, setCount] = useState('10');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const { fen, wrong } = parseFen(amount);
  const shares = parseCount(count);
  const wrongAmount = wrong ? t(`wrong.amount.${wrong}`) : null;
  // Who is here is not known at once; nothing can be sent until then.
  const wrongCount = !people.length ? null : shares === null || shares < 1 || shares > people.length ? t('room.wrong.count', { n: people.length })
    : fen && shares > fen ? t('wrong.count.total', { most: fen, n: fen }) : null;
  // Also after a reload: as long as nobody knows whether it was sent, it is sent again under its own key.
  const stored = `hongbao.room.${user}`;
  const unsure = useRef(sessionStorage.getItem(stored));
  const key = useRef(unsure.current ?? newKey());
  const settled = () => {
    sessionStorage.removeItem(stored);
    unsure.current = null;
    key.current = newKey();
  };
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    if (wrongAmount || wrongCount) {
      document.getElementById(wrongAmount ? 'room-amount' : 'room-count')?.focus();
      return;
    }
    setBusy(true);
    try {
      const body = { kind: 'lucky', total_fen: fen, count: shares, to: people, greeting: t('send.greeting.default') };
      sessionStorage.setItem(stored, key.current);
      const create = () => call('POST', 'envelopes', { body, key: key.current });
      const made = await patiently(create, { unknown: unsure.current === key.current });
      settled();
      setProblem(null);
      onSent({ ...made, at: made.created_at, claimed_count: 0 });
      announce(t('room.sent', { sum: yuan(fen) }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Nobody knows whether it was sent: the next try is the same create.
      if (error.unsure) unsure.current = key.current;
      else settled();
      setProblem(error);
    }
    setBusy(false);
  };
  return html`<form class="composer" onSubmit=${submit} noValidate>
    <${Trouble} problem=${problem} />
    <div class="composer-fields">
      <${Field} id="room-count" label=${t('send.count')} error=${wrongCount}>
        <input ...${described('room-count', wrongCount)} inputmode="numeric" autocomplete="off" value=${count}
          onInput=${(/** @type {any} */ event) => setCount(event.currentTarget.value)} /><//>
      <${Field} id="room-amount" label=${t('send.total')} error=${wrongAmount} suffix=${t('yuan')}>
        <input ...${described('room-amount', wrongAmount)} inputmode="decimal" autocomplete="off" value=${amount}
          onInput=${(/** @type {any} */ event) => setAmount(event.currentTarget.value)} /><//>
    </div>
    <button type="submit" class="primary" id="room-send" aria-busy=${busy} disabled=${!people.length}>${t(busy ? 'send.going' : 'room.send')}</button>
  </form>`;
}
