// Random numbers from a seed, as envelope/split/stream.py has them.

import { Shake256 } from './shake256.js';

const WORDS = 1n << 64n;

export class Stream {
  /** @param {Uint8Array} seed @param {string} purpose */
  constructor(seed, purpose) {
    const prefix = new TextEncoder().encode(`hongbao.split/${purpose}/`);
    const message = new Uint8Array(prefix.length + seed.length);
    message.set(prefix);
    message.set(seed, prefix.length);
    this.shake = new Shake256(message);
  }

  /** @param {bigint} bound @returns {bigint} from 0 to bound - 1, all equally likely */
  below(bound) {
    for (;;) {
      const high = this.half();
      const word = (BigInt(high) << 32n) | BigInt(this.half());
      const value = word % bound;
      if (word - value <= WORDS - bound) return value;
    }
  }

  /** @param {number} bound @returns {number} */
  index(bound) {
    return Number(this.below(BigInt(bound)));
  }

  half() {
    const { shake } = this;
    return ((shake.byte() << 24) | (shake.byte() << 16) | (shake.byte() << 8) | shake.byte()) >>> 0;
  }
}
