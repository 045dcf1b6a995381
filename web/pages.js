// A list that comes in pages: more of it when somebody gets to its end.

import { useEffect, useRef, useState } from 'preact/hooks';
import { call, patiently, Problem } from './api.js';

/**
 * @template T
 * @param {string} path below v1, with its own query if it has one
 * @returns {{items: T[], done: boolean, problem: Problem | null, more: () => Promise<void>, loading: boolean}}
 */
export function usePages(path) {
  const [state, setState] = useState(/** @type {{items: T[], cursor: string | null, problem: Problem | null}} */ ({
    items: [], cursor: '', problem: null,
  }));
  const [loading, setLoading] = useState(false);
  const asked = useRef('');
  const more = async () => {
    if (state.cursor === null || asked.current === path + state.cursor) return;
    asked.current = path + state.cursor;
    setLoading(true);
    const from = state.cursor ? `${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(state.cursor)}` : '';
    try {
      const page = await patiently(() => call('GET', path + from));
      setState((old) => ({ items: [...old.items, ...page.items], cursor: page.next_cursor, problem: null }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      asked.current = '';
      setState((old) => ({ ...old, problem: error }));
    }
    setLoading(false);
  };
  useEffect(() => void more(), [path]);
  return { items: state.items, done: state.cursor === null, problem: state.problem, more, loading };
}
