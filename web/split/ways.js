// How a total is cut into shares: the formulas of envelope/split/*.py, to the fen. Amounts are whole fen below 2^53;
// products that may be larger are bigint.

import { Stream } from './stream.js';

/** @typedef {'equal' | 'double_mean' | 'double_mean_narrow' | 'line_segments' | 'bell'} Split */

/**
 * @typedef {object} Terms
 * @property {Split} split
 * @property {number} split_version
 * @property {number} total_fen
 * @property {number} count
 * @property {number=} min_fen
 * @property {number=} max_fen
 */

/**
 * All shares in fen, in the order of opening.
 * @param {Terms} terms @param {Uint8Array} seed @returns {number[]}
 */
export function amounts(terms, seed) {
  const { split, split_version: version, total_fen: total, count, min_fen: min, max_fen: max } = terms;
  if (version !== 1 && version !== 2) throw new RangeError(`split version ${version} is not known`);
  if (split === 'equal') return equal(total, count);
  const old = version === 1;
  const bounds = old ? '' : `/${min ?? ''}/${max ?? ''}`;
  const stream = new Stream(seed, `${version}/${split}/${total}/${count}${bounds}`);
  const [least, most] = old ? [1, undefined] : [min ?? 1, max];
  switch (split) {
    case 'double_mean':
      return doubleMean(total, count, stream, least, most);
    case 'double_mean_narrow':
      return old ? narrowOfVersion1(total, count, stream) : narrow(total, count, stream, least, most);
    case 'line_segments':
      return lineSegments(total, count, stream, least, most);
    case 'bell':
      return bell(total, count, stream, least, most);
    default:
      throw new RangeError(`the split ${split} is not known`);
  }
}

/** @param {number} total @param {number} count */
function equal(total, count) {
  const share = Math.floor(total / count);
  return Array.from({ length: count }, (_, i) => share + (i < total % count ? 1 : 0));
}

/** @param {number} spare @param {number} parts @param {Stream} stream */
function uniform(spare, parts, stream) {
  const n = BigInt(parts);
  const [a, b] = [(2n * BigInt(spare)) / n, (2n * BigInt(spare)) % n];
  const x = stream.below(n * (a + 1n) * (a + 2n));
  return Number((x / n) % (x % n < b ? a + 2n : a + 1n));
}

/** @param {number} spare @param {number} count @param {Stream} stream @param {number=} most */
function draw(spare, count, stream, most) {
  const drawn = [];
  for (let n = count; n > 1; n--) {
    const y =
      most === undefined || 2 * spare <= n * most
        ? uniform(spare, n, stream)
        : most - uniform(n * most - spare, n, stream);
    spare -= y;
    drawn.push(y);
  }
  drawn.push(spare);
  return drawn;
}

/** @param {number} total @param {number} count @param {Stream} stream @param {number} least @param {number=} most */
function doubleMean(total, count, stream, least, most) {
  const room = most === undefined ? undefined : most - least;
  return draw(total - count * least, count, stream, room).map((y) => least + y);
}

/** @param {number} total @param {number} count @param {Stream} stream @param {number} least @param {number=} most */
function narrow(total, count, stream, least, most) {
  const part = Math.max(least, Math.floor(total / (count + 1)));
  const room = most === undefined ? undefined : most - part;
  return draw(total - count * part, count, stream, room).map((y) => part + y);
}

/** @param {number} total @param {number} count @param {Stream} stream */
function narrowOfVersion1(total, count, stream) {
  let spare = total - count;
  const shares = [];
  for (let n = count; n > 1; n--) {
    const y = uniform(spare, n + 1, stream);
    spare -= y;
    shares.push(1 + y);
  }
  shares.push(1 + spare);
  return shares;
}

/** @param {number} total @param {number} count @param {Stream} stream @param {number} least @param {number=} most */
function lineSegments(total, count, stream, least, most) {
  const lift = least - 1;
  const line = total - count * lift;
  const cuts = new Set();
  for (let j = line - count + 1; j < line; j++) {
    const t = 1 + stream.index(j);
    cuts.add(cuts.has(t) ? j : t);
  }
  const ends = [...[...cuts].sort((a, b) => a - b), line];
  const segments = ends.map((end, i) => end - (i ? ends[i - 1] : 0));
  if (most !== undefined) fit(segments, most - lift, stream.index(count));
  return segments.map((segment) => lift + segment);
}

/** @param {number[]} segments @param {number} most @param {number} first */
function fit(segments, most, first) {
  const line = sum(segments);
  while (segments.some((segment) => segment > most)) {
    segments.forEach((segment, i) => (segments[i] = Math.min(segment, most)));
    const free = segments.flatMap((segment, i) => (segment < most ? [i] : []));
    const length = sum(free.map((i) => segments[i]));
    const wanted = BigInt(length + line - sum(segments));
    for (const i of free) segments[i] = Number((BigInt(segments[i]) * wanted) / BigInt(length));
  }
  settle(segments, line - sum(segments), most, first);
}

/** @param {number} total @param {number} count @param {Stream} stream @param {number} least @param {number=} most */
function bell(total, count, stream, least, most) {
  const spare = total - count * least;
  const width = Math.ceil(spare / count);
  const wide = most === undefined || most - least >= 2 * width;
  const room = wide ? 2 * width : /** @type {number} */ (most) - least;
  const drawn = Array.from({ length: count }, () =>
    wide ? tent(width, stream) : side(width, room - width, stream),
  );
  settle(drawn, spare - sum(drawn), room, stream.index(count));
  return drawn.map((y) => least + y);
}

/** @param {number} width @param {Stream} stream */
function tent(width, stream) {
  const x = stream.below(2n * BigInt(width + 1) ** 2n);
  const root = isqrt(x / 2n);
  return x % 2n ? 2 * width - root : root;
}

/** @param {number} below @param {number} above @param {Stream} stream */
function side(below, above, stream) {
  const most = below + above;
  if (most && stream.index(most) >= above) return most - isqrt(stream.below(BigInt(above + 1) ** 2n));
  return isqrt(stream.below(BigInt(below + 1) ** 2n));
}

/** @param {bigint} n below 2^57 @returns {number} the whole part of its root */
function isqrt(n) {
  let root = BigInt(Math.floor(Math.sqrt(Number(n))));
  while (root * root > n) root--;
  while ((root + 1n) * (root + 1n) <= n) root++;
  return Number(root);
}

/** As envelope/split/rounds.py. @param {number[]} drawn @param {number} left @param {number} most @param {number} first */
function settle(drawn, left, most, first) {
  const up = left > 0;
  left = Math.abs(left);
  let order = drawn.map((_, i) => (i + first) % drawn.length);
  while (left) {
    order = order.filter((i) => (up ? drawn[i] < most : drawn[i] > 0));
    const step = Math.max(1, Math.floor(left / order.length));
    for (const i of order) {
      const move = Math.min(step, up ? most - drawn[i] : drawn[i], left);
      drawn[i] += up ? move : -move;
      left -= move;
    }
  }
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((all, one) => all + one, 0);
