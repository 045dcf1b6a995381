// Light or dark: as the system, unless somebody has chosen.

const STORED = 'hongbao.theme';
const THEMES = /** @type {const} */ (['auto', 'light', 'dark']);

/** @returns {'auto' | 'light' | 'dark'} */
export const theme = () => THEMES.find((one) => one === document.documentElement.dataset.theme) ?? 'auto';

export function startTheme() {
  apply(localStorage.getItem(STORED) ?? 'auto');
}

/** @param {string} name */
function apply(name) {
  if (name === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  localStorage.setItem(STORED, next);
  apply(next);
}
