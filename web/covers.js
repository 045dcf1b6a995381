// Covers: four of ours by number, and a sender's own image, kept in their browser.

export const COVERS = /** @type {const} */ (['1', '2', '3', '4']);
export const OWN = 'own';
const STORED = 'hongbao.cover';
const WIDTH = 480;
const HEIGHT = 640;
const MOST_CHARS = 200_000;

/** @param {string} cover from a link: anything @returns {string} one that there is */
export const known = (cover) => (/** @type {readonly string[]} */ (COVERS).includes(cover) ? cover : COVERS[0]);

/** @param {string} cover @returns {string} the address of its image */
export function imageOf(cover) {
  const own = cover === OWN ? localStorage.getItem(STORED) : null;
  if (own) return own;
  // The import map has the names of this version's files, also of those that are no modules.
  return import.meta.resolve(`./covers/${known(cover)}.svg`);
}

export const hasOwn = () => localStorage.getItem(STORED) !== null;

/** @param {File} file @returns {Promise<boolean>} whether it is an image that can be kept */
export async function keepOwn(file) {
  try {
    const image = await createImageBitmap(file);
    const scale = Math.max(WIDTH / image.width, HEIGHT / image.height);
    const [width, height] = [image.width * scale, image.height * scale];
    const canvas = Object.assign(document.createElement('canvas'), { width: WIDTH, height: HEIGHT });
    canvas.getContext('2d')?.drawImage(image, (WIDTH - width) / 2, (HEIGHT - height) / 2, width, height);
    const text = [0.85, 0.7, 0.5].map((quality) => canvas.toDataURL('image/jpeg', quality)).find((one) => one.length < MOST_CHARS);
    if (!text) return false;
    localStorage.setItem(STORED, text);
    return true;
  } catch {
    return false;
  }
}
