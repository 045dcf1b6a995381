// What time it is where the gateway is: this machine's, or that of a sandbox, whose clock somebody moves ahead.

import { url } from './router.js';

const EVERY_MS = 5_000;
/** @type {Set<() => void>} */
const listeners = new Set();
let ahead = 0;
let known = false;

/** The present, in milliseconds since the epoch. */
export const now = () => Date.now() + ahead;

/** Whether this is a sandbox, and its time is known. */
export const inSandbox = () => known;

/** @param {() => void} listener called when the time of a sandbox was read @returns {() => void} ends it */
export function onClock(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follow the clock of a sandbox; elsewhere nothing is asked. */
export function startClock() {
  if (!document.querySelector('meta[name="hongbao-sandbox"][content="yes"]')) return;
  look();
  setInterval(look, EVERY_MS);
}

async function look() {
  try {
    const answer = await fetch(url('readyz'), { cache: 'no-store', credentials: 'omit' });
    const there = Date.parse((await answer.json()).sandbox_now);
    if (Number.isNaN(there)) return;
    ahead = there - Date.now();
    known = true;
    for (const one of listeners) one();
  } catch {
    // Nobody answers: the calls of the screens say so.
  }
}
