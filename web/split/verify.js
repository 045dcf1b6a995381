// The fair-split check: every amount of a closed envelope must be the one that its seed gives (envelope/verify.py).

import { sha256 } from './sha256.js';
import { amounts, sum } from './ways.js';

/**
 * @typedef {{seq: number, amount_fen: number}} Claim
 * @typedef {import('./ways.js').Terms & {split_seed: string, split_commitment: string, claims: Claim[],
 *   refund_fen?: number}} Closed
 * @typedef {{code: 'commitment' | 'amount' | 'missing' | 'refund', seq?: number, said?: number, given?: number}} Mismatch
 */

/** @param {string} text @returns {Uint8Array} */
export function fromHex(text) {
  if (!/^([0-9a-f]{2})*$/i.test(text)) throw new RangeError('the seed is not hex');
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * @param {Closed} envelope with all its claims
 * @returns {{amounts: number[], mismatches: Mismatch[]}}
 */
export function verify(envelope) {
  const seed = fromHex(envelope.split_seed);
  const shares = amounts(envelope, seed);
  /** @type {Mismatch[]} */
  const mismatches = [];
  if (sha256(seed) !== envelope.split_commitment.toLowerCase()) mismatches.push({ code: 'commitment' });
  const seen = new Set();
  for (const { seq, amount_fen: said } of envelope.claims) {
    if (seen.has(seq) || said !== shares[seq]) mismatches.push({ code: 'amount', seq, said, given: shares[seq] });
    seen.add(seq);
  }
  for (let seq = 0; seq < Math.min(envelope.claims.length, shares.length); seq++) {
    if (!seen.has(seq)) mismatches.push({ code: 'missing', seq });
  }
  if (envelope.refund_fen !== undefined) {
    const given = envelope.total_fen - sum(envelope.claims.map((claim) => claim.amount_fen));
    if (given !== envelope.refund_fen) mismatches.push({ code: 'refund', said: envelope.refund_fen, given });
  }
  return { amounts: shares, mismatches };
}
