// What happens to envelopes while one looks: one stream a page for all of them, or, where there is none, a look every
// two seconds. Screens know neither: they call `watch`.

import { call, credentials, pause, Problem, problemOf } from './api.js';
import { url } from './router.js';

const LOOK_MS = 2_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
const FINAL = new Set(['sold_out', 'expired', 'canceled']);
const NEWEST = 20;

/**
 * @typedef {{seq: number, user: string, amount_fen: number, claimed_at: string}} Claim
 * @typedef {object} Frame
 * @property {string} envelope_id
 * @property {string} status
 * @property {number} claimed_count
 * @property {number} claimed_fen
 * @property {Claim[]} claims new since the last frame, at most 20
 * @property {Claim=} best_luck
 * @property {number=} refund_fen
 */

/** @type {Map<string, Set<(frame: Frame) => void>>} */
const watched = new Map();
/** @type {AbortController | null} */
let running = null;
let polling = false;
let lastEventId = '';
/** How long the server asks to wait before the stream is begun again. */
let retryMs = FIRST_RETRY_MS;

/**
 * Hear of every change of an envelope, first of how it is now.
 * @param {string} id its ID or share ID, as the path has it @param {(frame: Frame) => void} onFrame
 * @returns {() => void} ends it
 */
export function watch(id, onFrame) {
  const listeners = watched.get(id) ?? new Set();
  listeners.add(onFrame);
  watched.set(id, listeners);
  restart();
  return () => {
    listeners.delete(onFrame);
    if (!listeners.size) watched.delete(id);
    restart();
  };
}

/** The set of envelopes has changed: one stream for all of them begins anew. */
function restart() {
  running?.abort();
  running = null;
  if (!watched.size) return;
  running = new AbortController();
  // Screens come and go within one turn: one stream for where that ends.
  const { signal } = running;
  queueMicrotask(() => signal.aborted || follow(signal));
}

/** @param {AbortSignal} signal */
async function follow(signal) {
  let waitMs = retryMs;
  while (!signal.aborted) {
    try {
      if (polling) await look(signal);
      else await stream(signal);
      waitMs = retryMs;
    } catch (error) {
      if (signal.aborted || (error instanceof Problem && error.retry === 'never')) return;
      const askedMs = error instanceof Problem ? 1000 * error.waitS : 0;
      waitMs = Math.max(askedMs, Math.min(2 * waitMs, LONGEST_RETRY_MS));
    }
    // Never sooner than the server asks, and not all pages in the same instant.
    await pause((polling ? LOOK_MS : waitMs) * (1 + Math.random() / 2), signal).catch(() => {});
  }
}

/** @param {AbortSignal} signal */
async function stream(signal) {
  /** @type {Record<string, string>} */
  const headers = { Accept: 'text/event-stream', Authorization: `Bearer ${credentials.token}` };
  if (lastEventId) headers['Last-Event-ID'] = lastEventId;
  const ids = [...watched.keys()].map(encodeURIComponent).join(',');
  const answer = await fetch(url(`v1/live?envelopes=${ids}`), { headers, signal, cache: 'no-store', credentials: 'omit' });
  if (!answer.ok || !answer.body) {
    const problem = problemOf(answer, await answer.json().catch(() => ({})));
    // There are no streams here: a gateway of an earlier version, or a proxy that does not pass the path on.
    polling = problem.code === 'route_not_found' || problem.code === '404';
    if (polling) return;
    if (answer.status === 401) credentials.onRejected(problem.code);
    throw problem;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new Events((event) => {
    lastEventId = event.id || lastEventId;
    if (event.type === 'envelope') give(JSON.parse(event.data));
  }, (ms) => (retryMs = ms));
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parser.push(value);
  }
}

/** @param {AbortSignal} signal */
async function look(signal) {
  for (const id of [...watched.keys()]) {
    const path = `envelopes/${encodeURIComponent(id)}`;
    const seen = await call('GET', `${path}?limit=1`, { signal });
    const from = Math.max(0, seen.claimed_count - NEWEST);
    const page = await call('GET', `${path}?limit=${NEWEST}${from ? `&cursor=${from}` : ''}`, { signal });
    give(page, id);
    if (FINAL.has(page.status)) watched.delete(id);
  }
}

/** @param {Frame} frame @param {string=} id as it is watched */
function give(frame, id) {
  for (const [name, listeners] of watched) {
    if (name === id || envelopeOf(name) === frame.envelope_id) for (const one of [...listeners]) one(frame);
  }
}

/**
 * A frame names the envelope by its ID; who watches may know it by its share ID, whose first bytes are the ID.
 * @param {string} name an ID or share ID @returns {string} the ID; empty if it is neither
 */
export function envelopeOf(name) {
  if (!/^A[\w-]{32}$/.test(name)) return name;
  const bytes = atob(name.slice(1, 13).replace(/-/g, '+').replace(/_/g, '/')).slice(0, 8);
  return [...bytes].reduce((all, one) => all * 256n + BigInt(one.charCodeAt(0)), 0n).toString();
}

/** Reads `text/event-stream` (HTML, 9.2.6), whatever pieces it comes in. */
export class Events {
  /**
   * @param {(event: {type: string, data: string, id: string}) => void} onEvent
   * @param {(ms: number) => void} onRetry hears how long to wait before the stream is begun again
   */
  constructor(onEvent, onRetry = () => {}) {
    this.onEvent = onEvent;
    this.onRetry = onRetry;
    this.rest = '';
    this.type = 'message';
    this.id = '';
    /** @type {string[]} */
    this.data = [];
  }

  begin() {
    this.type = 'message';
    this.id = '';
    this.data = [];
  }

  /** @param {string} text */
  push(text) {
    this.rest += text;
    // A CR at the end may be half of a line's end.
    const whole = this.rest.endsWith('\r') ? this.rest.slice(0, -1) : this.rest;
    const lines = whole.split(/\r\n|\n|\r/);
    this.rest = /** @type {string} */ (lines.pop()) + this.rest.slice(whole.length);
    for (const line of lines) this.line(line);
  }

  /** @param {string} line */
  line(line) {
    if (!line) {
      if (this.data.length) this.onEvent({ type: this.type, data: this.data.join('\n'), id: this.id });
      this.begin();
      return;
    }
    const [, name, value] = /** @type {RegExpExecArray} */ (/^([^:]*):? ?(.*)$/.exec(line));
    if (name === 'data') this.data.push(value);
    else if (name === 'event') this.type = value;
    else if (name === 'id') this.id = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.onRetry(Number(value));
  }
}

const PAGE = 100;

/**
 * The claims of one envelope as far as they are known: a window that begins with the newest and grows downwards. An
 * envelope may have 10,000; nobody reads all of them, and they never come in one answer.
 */
export class Claims {
  constructor() {
    /** @type {Map<number, Claim>} */
    this.known = new Map();
    this.count = 0;
  }

  /** @param {Claim[]} claims @param {number} count how many there are in all; it never falls */
  add(claims, count) {
    for (const one of claims) this.known.set(one.seq, one);
    this.count = Math.max(this.count, count);
    return this;
  }

  /** The newest without a gap, newest first. @returns {Claim[]} */
  newest() {
    const rows = [];
    for (let seq = this.count - 1; ; seq--) {
      const claim = this.known.get(seq);
      if (!claim) return rows;
      rows.push(claim);
    }
  }

  /** Which page comes below the newest. @returns {{cursor: number, limit: number} | null} null: all are there */
  next() {
    const end = this.count - this.newest().length;
    const cursor = Math.max(0, end - PAGE);
    return end ? { cursor, limit: end - cursor } : null;
  }
}

/** @param {{cursor: number, limit: number}} page @returns {string} as a query */
export const query = ({ cursor, limit }) => `?limit=${limit}${cursor ? `&cursor=${cursor}` : ''}`;

globalThis.addEventListener?.('online', restart);
globalThis.document?.addEventListener('visibilitychange', () => {
  // A page that nobody sees needs no stream; it begins with how things are when somebody looks again.
  if (document.hidden) running?.abort();
  else restart();
});
