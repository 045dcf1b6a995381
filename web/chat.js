// What a group chat knows of its envelopes, and the lines that it shows of them. No markup here, and nothing is asked.

/** Envelopes that are kept up to date, the newest; older ones stay lines. */
export const KEPT = 20;
const LINES = 80;

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

/** What the room knows. */
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
    /** @type {Set<string>} All that have ever had a line: what is forgotten and still waits is no news. */
    this.seen = new Set();
  }

  /** @param {Item[]} items newest first @param {boolean} waiting whether they wait for this user */
  take(items, waiting) {
    if (waiting) this.waiting = new Set(items.map((one) => one.envelope_id));
    let news = false;
    for (const item of [...items].reverse()) {
      const known = this.items.get(item.envelope_id);
      if (known) Object.assign(known, { ...item, claimed_count: Math.max(known.claimed_count ?? 0, item.claimed_count ?? 0) });
      else if (!this.seen.has(item.envelope_id)) {
        this.seen.add(item.envelope_id);
        this.items.set(item.envelope_id, { ...item });
        this.add({ key: item.envelope_id, item: this.items.get(item.envelope_id) });
        news = true;
      }
    }
    while (this.items.size > KEPT) this.items.delete(/** @type {string} */ (this.items.keys().next().value));
    return news;
  }

  /** @param {import('./live.js').Frame} frame */
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
