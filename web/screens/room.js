// A group chat: envelopes that name everybody here come and go, and one sees who opens what as it happens. The room is
// made of what the API has: the list of what waits for one, and the live stream.

import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { call, newKey, pause, patiently, Problem } from '../api.js';
import { t } from '../i18n.js';
import { watch } from '../live.js';
import { parseCount, parseFen, yuan } from '../money.js';
import { envelopePath, follow, url } from '../router.js';
import { announce, classes, described, Face, Field, html, Name, Screen, Trouble } from '../ui.js';

const LOOK_MS = 1_500;
const KEPT = 20;
const LINES = 80;
const FINAL = new Set(['sold_out', 'expired', 'canceled']);

/**
 * @typedef {object} Item an envelope in the room
 * @property {string} envelope_id
 * @property {string} at
 * @property {string=} sender
 * @property {string=} greeting
 * @property {string=} status
 * @property {number=} count
 * @property {number=} claimed_count
 * @property {boolean=} password_required
 */
/** @typedef {{key: string, item?: Item, who?: string, from?: string}} Line an envelope, or that somebody opened one */

/** What the room knows. No markup here. */
export class Chat {
  /** @param {string} user */
  constructor(user) {
    this.user = user;
    /** @type {Map<string, Item>} */
    this.items = new Map();
    /** @type {Set<string>} Envelopes that wait for this user. */
    this.waiting = new Set();
    /** @type {Line[]} Oldest first. */
    this.lines = [];
    /** @type {Map<string, number>} By envelope: the claims that have been told. */
    this.told = new Map();
  }

  /** @param {Item[]} items newest first @param {boolean} waiting whether they wait for this user */
  take(items, waiting) {
    if (waiting) this.waiting = new Set(items.map((one) => one.envelope_id));
    let news = false;
    for (const item of [...items].reverse()) {
      const known = this.items.get(item.envelope_id);
      if (known) Object.assign(known, { ...item, claimed_count: Math.max(known.claimed_count ?? 0, item.claimed_count ?? 0) });
      else {
        this.items.set(item.envelope_id, { ...item });
        this.add({ key: item.envelope_id, item: this.items.get(item.envelope_id) });
        news = true;
      }
    }
    while (this.items.size > KEPT) this.items.delete(/** @type {string} */ (this.items.keys().next().value));
    return news;
  }

  /** @param {import('../live.js').Frame} frame */
  hear(frame) {
    const item = this.items.get(frame.envelope_id);
    if (!item) return;
    const before = this.told.get(frame.envelope_id);
    Object.assign(item, { status: frame.status, claimed_count: frame.claimed_count });
    this.told.set(frame.envelope_id, frame.claimed_count);
    // What has happened before one came is in the envelope's own list.
    if (before === undefined) return;
    for (const claim of frame.claims) {
      if (claim.seq >= before) this.add({ key: `${frame.envelope_id}.${claim.seq}`, who: claim.user, from: item.sender });
    }
  }

  /** @param {Line} line */
  add(line) {
    this.lines = [...this.lines, line].slice(-LINES);
  }
}

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
      const { users } = await call('GET', 'play', { signal });
      setPeople(users);
      for (const role of ['received', 'sent']) {
        chat.take((await call('GET', `me/envelopes?role=${role}&limit=5`, { signal })).items, false);
      }
      for (;;) {
        try {
          const { items } = await patiently(() => call('GET', `me/envelopes?role=waiting&limit=${KEPT}`, { signal }), { signal });
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
    <${Composer} people=${people} onSent=${(/** @type {Item} */ made) => { chat.take([made], false); redraw(0); }} />
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
  const state = over ? t(item.status === 'sold_out' ? 'room.gone' : 'status.expired')
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

/** @param {{people: string[], onSent: (made: Item) => void}} props */
function Composer({ people, onSent }) {
  const [amount, setAmount] = useState('8.88');
  const [count, setCount] = useState('10');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const { fen, wrong } = parseFen(amount);
  const shares = parseCount(count);
  const wrongAmount = wrong ? t(`wrong.amount.${wrong}`) : null;
  const wrongCount = shares === null || shares < 1 || shares > people.length ? t('room.wrong.count', { n: people.length })
    : fen && shares > fen ? t('wrong.count.total', { most: fen, n: fen }) : null;
  const key = useRef(newKey());
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
      const made = await patiently(() => call('POST', 'envelopes', { body, key: key.current }));
      key.current = newKey();
      setProblem(null);
      onSent({ ...made, at: made.created_at, claimed_count: 0 });
      announce(t('room.sent', { sum: yuan(fen) }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Nobody knows whether it was sent: the next try is the same create.
      if (!error.unsure) key.current = newKey();
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
