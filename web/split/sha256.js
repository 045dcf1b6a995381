// SHA-256 (FIPS 180-4), for the commitment to a seed. The browser's own is there on https and localhost only.

const K = new Uint32Array(64);
const START = new Uint32Array(8);
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  if (found < 8) START[found] = fraction(Math.sqrt(n));
  K[found++] = fraction(Math.cbrt(n));
}

/** @param {number} root @returns {number} the first 32 bits of its fraction */
function fraction(root) {
  return ((root - Math.floor(root)) * 2 ** 32) >>> 0;
}

/** @param {number} word @param {number} by */
const rotate = (word, by) => (word >>> by) | (word << (32 - by));

/** @param {Uint8Array} message @returns {string} in lower-case hex */
export function sha256(message) {
  const padded = new DataView(new ArrayBuffer(64 * Math.ceil((message.length + 9) / 64)));
  message.forEach((byte, i) => padded.setUint8(i, byte));
  padded.setUint8(message.length, 0x80);
  padded.setUint32(padded.byteLength - 4, 8 * message.length);
  const hash = START.slice();
  const w = new Uint32Array(64);
  for (let block = 0; block < padded.byteLength; block += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) w[i] = padded.getUint32(block + 4 * i);
      else {
        const [p, q] = [w[i - 15], w[i - 2]];
        const s0 = rotate(p, 7) ^ rotate(p, 18) ^ (p >>> 3);
        const s1 = rotate(q, 17) ^ rotate(q, 19) ^ (q >>> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
      }
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] += word));
  }
  return [...hash].map((word) => word.toString(16).padStart(8, '0')).join('');
}
