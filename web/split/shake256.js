// SHAKE-256 (FIPS 202), from which a split draws its numbers. Browsers have no SHA-3 of their own. Lanes are pairs of
// 32-bit halves: with BigInt, 10,000 shares would take a second.

const RATE = 136;
const ROUNDS = 24;

const [ROUND_LOW, ROUND_HIGH, ROTATIONS, TARGETS] = constants();

/** Round constants by the LFSR, rotations and lane order by the walk of rho and pi (FIPS 202, 3.2). */
function constants() {
  const low = new Uint32Array(ROUNDS);
  const high = new Uint32Array(ROUNDS);
  const rotations = [];
  const targets = [];
  let lfsr = 1;
  let x = 1;
  let y = 0;
  for (let round = 0; round < ROUNDS; round++) {
    [x, y] = [y, (2 * x + 3 * y) % 5];
    targets.push(5 * y + x);
    rotations.push((((round + 1) * (round + 2)) / 2) % 64);
    for (let j = 0; j < 7; j++) {
      const bit = (1 << j) - 1;
      if (lfsr & 1) {
        if (bit < 32) low[round] ^= (1 << bit) >>> 0;
        else high[round] ^= (1 << (bit - 32)) >>> 0;
      }
      lfsr = (lfsr << 1) ^ ((lfsr >> 7) * 0x171);
    }
  }
  return /** @type {const} */ ([low, high, rotations, targets]);
}

/** @param {Uint32Array} state 25 lanes, low half first */
function permute(state) {
  const sums = new Uint32Array(10);
  for (let round = 0; round < ROUNDS; round++) {
    for (let x = 0; x < 10; x++) {
      sums[x] = state[x] ^ state[x + 10] ^ state[x + 20] ^ state[x + 30] ^ state[x + 40];
    }
    for (let x = 0; x < 5; x++) {
      const before = 2 * ((x + 4) % 5);
      const after = 2 * ((x + 1) % 5);
      const low = sums[before] ^ ((sums[after] << 1) | (sums[after + 1] >>> 31));
      const high = sums[before + 1] ^ ((sums[after + 1] << 1) | (sums[after] >>> 31));
      for (let y = 0; y < 50; y += 10) {
        state[y + 2 * x] ^= low;
        state[y + 2 * x + 1] ^= high;
      }
    }
    let low = state[2];
    let high = state[3];
    for (let step = 0; step < ROUNDS; step++) {
      const lane = 2 * TARGETS[step];
      const by = ROTATIONS[step];
      const [a, b] = by < 32 ? [low, high] : [high, low];
      const n = by % 32;
      low = state[lane];
      high = state[lane + 1];
      state[lane] = n ? (a << n) | (b >>> (32 - n)) : a;
      state[lane + 1] = n ? (b << n) | (a >>> (32 - n)) : b;
    }
    for (let y = 0; y < 50; y += 10) {
      const row = state.slice(y, y + 10);
      for (let x = 0; x < 10; x++) state[y + x] = row[x] ^ (~row[(x + 2) % 10] & row[(x + 4) % 10]);
    }
    state[0] ^= ROUND_LOW[round];
    state[1] ^= ROUND_HIGH[round];
  }
}

export class Shake256 {
  /** @param {Uint8Array} message */
  constructor(message) {
    this.state = new Uint32Array(50);
    this.at = 0;
    const padded = new Uint8Array(RATE * (Math.floor(message.length / RATE) + 1));
    padded.set(message);
    padded[message.length] = 0x1f;
    padded[padded.length - 1] |= 0x80;
    const words = new DataView(padded.buffer);
    for (let block = 0; block < padded.length; block += RATE) {
      for (let i = 0; i < RATE / 4; i++) this.state[i] ^= words.getUint32(block + 4 * i, true);
      permute(this.state);
    }
  }

  /** @returns {number} the next byte of the output */
  byte() {
    if (this.at === RATE) {
      permute(this.state);
      this.at = 0;
    }
    const at = this.at++;
    return (this.state[at >> 2] >>> (8 * (at & 3))) & 0xff;
  }
}
