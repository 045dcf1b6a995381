// Money: whole fen, never a float. Read from text, written for eyes and for ears.

export const MOST_FEN = 100_000_000;
export const MOST_SHARES = 10_000;

/** @typedef {'empty' | 'malformed' | 'decimals' | 'zero' | 'too_much'} WrongAmount */

/**
 * Read yuan, as people type them, into fen.
 * @param {string} text @returns {{fen: number, wrong: null} | {fen: 0, wrong: WrongAmount}}
 */
export function parseFen(text) {
  // Full-width digits and stops come from Chinese keyboards.
  const plain = text.normalize('NFKC').replace('。', '.').trim();
  /** @param {WrongAmount} reason */
  const wrong = (reason) => ({ fen: /** @type {0} */ (0), wrong: reason });
  if (!plain) return wrong('empty');
  const found = /^(\d*)(?:\.(\d*))?$/.exec(plain);
  if (!found || !/\d/.test(plain)) return wrong('malformed');
  const [, whole, part = ''] = found;
  if (part.length > 2) return wrong('decimals');
  const digits = (whole + part.padEnd(2, '0')).replace(/^0+/, '');
  if (!digits) return wrong('zero');
  if (digits.length > String(MOST_FEN).length) return wrong('too_much');
  const fen = parseInt(digits, 10);
  return fen > MOST_FEN ? wrong('too_much') : { fen, wrong: null };
}

/** @param {string} text @returns {number | null} */
export function parseCount(text) {
  const plain = text.normalize('NFKC').trim();
  return /^\d{1,6}$/.test(plain) ? parseInt(plain, 10) : null;
}

/** @param {number} fen @returns {string} such as 1,234.05 */
export function yuan(fen) {
  const size = Math.abs(fen);
  const whole = String(Math.floor(size / 100)).replace(/\B(?=(\d{3})+$)/g, ',');
  return `${fen < 0 ? '-' : ''}${whole}.${String(size % 100).padStart(2, '0')}`;
}

/** As it is said: 一元八角八分, one yuan 88 fen. @param {number} fen @param {string} language */
export function words(fen, language) {
  const size = Math.abs(fen);
  const [whole, part] = [Math.floor(size / 100), size % 100];
  if (language === 'zh') return (fen < 0 ? '负' : '') + inChinese(whole, part);
  const parts = [];
  if (whole || !part) parts.push(`${whole === 1 ? 'one' : whole || 'zero'} yuan`);
  if (part) parts.push(`${part === 1 ? 'one' : part} fen`);
  return (fen < 0 ? 'minus ' : '') + parts.join(' ');
}

/** @param {number} whole @param {number} part */
function inChinese(whole, part) {
  const [jiao, fen] = [Math.floor(part / 10), part % 10];
  let text = whole || !part ? `${chineseNumber(whole)}元` : '';
  if (jiao) text += `${DIGITS[jiao]}角`;
  else if (fen && whole) text += '零';
  return fen ? `${text}${DIGITS[fen]}分` : text;
}

const DIGITS = '零一二三四五六七八九';

/** @param {number} n below 10^8 */
function chineseNumber(n) {
  if (n === 0) return '零';
  const [high, low] = [Math.floor(n / 10_000), n % 10_000];
  if (!high) return belowTenThousand(n);
  const gap = low && low < 1000 ? '零' : '';
  return `${belowTenThousand(high)}万${low ? gap + belowTenThousand(low, true) : ''}`;
}

/** @param {number} n from 1 to 9999 @param {boolean} inside behind 万, where 10 is 一十 */
function belowTenThousand(n, inside = false) {
  let text = '';
  let gap = false;
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1000, '千'], [100, '百'], [10, '十'], [1, '']])) {
    const digit = Math.floor(n / size) % 10;
    if (!digit) {
      gap = Boolean(text);
      continue;
    }
    text += (gap ? '零' : '') + (digit === 1 && unit === '十' && !text && !inside ? '' : DIGITS[digit]) + unit;
    gap = false;
  }
  return text;
}
