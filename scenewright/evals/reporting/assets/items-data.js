"use strict";
// The data of the items: pieces arrive as scripts, because a page from a disk may not fetch files.
const ItemsData = (() => {
  const waiting = new Map();
  const chunks = new Map();
  const KEPT = 12;
  let meta = null;
  const items = [];

  window.sceneReport = (kind, number, data) => {
    const key = `${kind}-${number}`;
    const found = waiting.get(key);
    waiting.delete(key);
    if (found) found.resolve(data);
  };

  const load = (kind, number) => {
    const key = `${kind}-${number}`;
    if (waiting.has(key)) return waiting.get(key).promise;
    const entry = {};
    entry.promise = new Promise((resolve, reject) => {
      entry.resolve = resolve;
      const script = document.createElement("script");
      script.src = `data/${key}.js`;
      script.onload = () => {
        script.remove();
        if (waiting.delete(key)) reject(new Error(`data/${key}.js is damaged: make the report again`));
      };
      script.onerror = () => {
        script.remove();
        waiting.delete(key);
        reject(new Error(`data/${key}.js is missing: make the report again`));
      };
      document.head.append(script);
    });
    waiting.set(key, entry);
    return entry.promise;
  };

  const start = async (told) => {
    meta = await load("meta", 0);
    for (let at = 0; at < meta.indexes; at += 1) {
      for (const row of await load("index", at)) {
        const [id, title, text, classes, scores, flags, wrong, thumbs, photo] = row;
        const search = `${id} ${title} ${text}`.toLowerCase();
        items.push({ at: items.length, id, title, text, classes, scores, flags, wrong, thumbs, photo, search });
      }
      told(items.length, meta.items);
    }
    return meta;
  };

  const details = async (item) => {
    const number = Math.floor(item.at / meta.chunk);
    let chunk = chunks.get(number);
    if (!chunk) {
      chunk = await load("chunk", number);
      chunks.set(number, chunk);
      if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
    }
    return chunk[item.at % meta.chunk];
  };

  const facets = () => Object.keys(meta.facets);

  const keeps = (item, state) => {
    for (const [at, facet] of facets().entries()) {
      const wanted = state[facet];
      if (wanted && meta.facets[facet][item.classes[at]] !== wanted) return false;
    }
    for (const word of state.q.toLowerCase().split(/\s+/)) if (word && !item.search.includes(word)) return false;
    if (!state.what && !state.label) return true;
    const flag = Number(state.what) || 0;
    const label = state.label ? meta.labels.findIndex(([name]) => name === state.label) : -1;
    const panel = Math.max(0, meta.panels.indexOf(state.panel));
    return meta.arms.some((arm, at) => {
      if (state.arm && state.arm !== arm) return false;
      if (flag && !((item.flags[at][panel] || 0) & flag)) return false;
      return !state.label || (item.wrong[at][panel] || []).includes(label);
    });
  };

  const column = (state) => Math.max(0, meta.columns.findIndex((c) => columnName(c) === state.score));
  const columnName = (c) => (c.panel ? `${c.metric} by ${c.panel}` : c.metric);

  const score = (item, state) => {
    const row = item.scores[column(state)] || [];
    if (state.arm) return row[meta.arms.indexOf(state.arm)] ?? null;
    const known = row.filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };

  const difference = (item, state) => {
    const row = item.scores[column(state)] || [];
    const a = row[meta.arms.indexOf(state.a)] ?? null;
    const b = row[meta.arms.indexOf(state.b)] ?? null;
    return a === null || b === null ? null : a - b;
  };

  const choose = (state) => {
    const found = items.filter((item) => keeps(item, state));
    if (!state.sort) return found;
    const value = state.sort.startsWith("difference") ? difference : score;
    const sign = state.sort.endsWith("down") ? -1 : 1;
    const keyed = found.map((item) => [value(item, state), item]);
    // What has no score stands last, whichever way it is sorted.
    keyed.sort(([a, x], [b, y]) =>
      a === null || b === null ? (a === null) - (b === null) || x.at - y.at : sign * (a - b) || x.at - y.at);
    return keyed.map(([, item]) => item);
  };

  return { start, details, choose, column, columnName, difference, items, meta: () => meta };
})();
