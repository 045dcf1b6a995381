// The claims of one envelope as far as they are known: a window that begins with the newest and grows downwards. An
// envelope may have 10,000; nobody reads all of them, and they never come in one answer.

/** @typedef {import('./live.js').Claim} Claim */

export const PAGE = 100;

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
