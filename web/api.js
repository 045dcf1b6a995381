// Calls to the gateway: JSON in and out, problems as errors, patience where the answer asks for it.

import { isKey } from './i18n.js';
import { url } from './router.js';

const ANSWER_MS = 15_000;
const TRIES = 6;
const LONGEST_S = 15;
/** Refusals that tell what earlier attempts under this key came to: undone, or done with another body. */
const TELLS_OF_ALL = new Set(['create_undone', 'idempotency_key_reused']);

export class Problem extends Error {
  /**
   * @param {string} code of the server, or `offline`: no answer came
   * @param {string} detail the server's own word
   * @param {'never' | 'changed' | 'later' | 'repeat'} retry
   * @param {number} waitS how long the server asks to wait
   */
  constructor(code, detail, retry, waitS = 1) {
    super(detail || code);
    this.code = code;
    this.detail = detail;
    this.retry = retry;
    this.waitS = waitS;
    /** Whether an earlier attempt had no answer: this refusal says nothing about that one. */
    this.unknownBefore = false;
  }

  /** The text of the page for it. @returns {import('./i18n.js').Key} */
  get key() {
    if (this.unknownBefore) return 'problem.unsure';
    const key = `problem.${this.code}`;
    return isKey(key) ? key : this.retry === 'later' || this.retry === 'repeat' ? 'problem.busy' : 'problem.other';
  }

  /** Whether the request may have been done: the same one must be sent again to learn it. */
  get unsure() {
    return this.unknownBefore || this.code === 'offline' || this.retry === 'repeat';
  }
}

/** @type {{token: string, onRejected: (code: string) => void}} */
export const credentials = { token: '', onRejected: () => {} };

/**
 * @param {'GET' | 'POST'} method @param {string} path below v1
 * @param {{body?: unknown, key?: string, signal?: AbortSignal}=} options
 * @returns {Promise<any>} the answer; throws Problem
 */
export async function call(method, path, { body, key, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: 'application/json', 'X-Request-Timeout-Ms': String(ANSWER_MS) };
  const { token } = credentials;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (key) headers['Idempotency-Key'] = key;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const request = {
    method, headers, cache: /** @type {const} */ ('no-store'), credentials: /** @type {const} */ ('omit'),
    body: body === undefined ? undefined : JSON.stringify(body), signal: until(signal),
  };
  let answer, value;
  try {
    answer = await fetch(url(`v1/${path}`), request);
    value = await answer.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem('offline', '', 'repeat');
  }
  if (answer.ok) return value;
  const problem = problemOf(answer, value);
  if (answer.status === 401 && token === credentials.token) credentials.onRejected(problem.code);
  throw problem;
}

/**
 * The problem of an answer that refuses.
 * @param {Response} answer @param {any} value what it says; {} if that was no JSON
 */
export function problemOf(answer, value) {
  return new Problem(
    String(value.code ?? answer.status),
    String(value.detail ?? ''),
    value.retry ?? (answer.status >= 500 ? 'later' : 'never'),
    Number(answer.headers.get('Retry-After')) || 1,
  );
}

/** @param {AbortSignal=} signal */
function until(signal) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), ANSWER_MS);
  if (signal?.aborted) controller.abort();
  signal?.addEventListener('abort', () => {
    clearTimeout(timer);
    controller.abort();
  });
  return controller.signal;
}

/**
 * Ask until there is an answer: while the server says that it is busy, as long as it asks to wait, a few times.
 *
 * Once unknown, the outcome stays unknown (`unsure`): a later refusal says nothing about the first attempt.
 * @template T @param {() => Promise<T>} ask
 * @param {{onWait?: (seconds: number, tries: number) => void, signal?: AbortSignal, unknown?: boolean}=} options
 *   unknown: whether an attempt before these had no answer
 * @returns {Promise<T>}
 */
export async function patiently(ask, { onWait, signal, unknown = false } = {}) {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof Problem) {
        error.unknownBefore = unknown && !TELLS_OF_ALL.has(error.code);
        unknown = error.unsure;
      }
      const again = error instanceof Problem && (error.retry === 'later' || error.retry === 'repeat');
      if (!again || error.code === 'offline' || tries >= TRIES || error.waitS > LONGEST_S || signal?.aborted) throw error;
      onWait?.(error.waitS, tries);
      // With jitter: a crowd that was told the same second must not come back in the same instant.
      await pause(1000 * error.waitS * (0.6 + 0.8 * Math.random()), signal);
    }
  }
}

/** @param {number} ms @param {AbortSignal=} signal */
export const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

/** @returns {string} a new Idempotency-Key; crypto.randomUUID is not there without https */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
