"use strict";
// What the page shows, and what keys and controls do. The address says it all, so that it can be kept.
(() => {
  const PAGE = 25;
  const FIELDS = ["q", "what", "label", "arm", "panel", "level", "group", "category", "score", "sort", "a", "b"];
  const get = (id) => document.getElementById(id);
  const list = get("list"), dialog = get("item"), status = get("status");
  const state = { page: 0, item: "", complexity: "" };
  for (const name of FIELDS) state[name] = "";
  let meta, names, found = [], opened = null, chosen = 0;

  const options = (id, entries, first) => {
    const select = get(id);
    const all = first === undefined ? entries : [["", first], ...entries];
    select.replaceChildren(...all.map(([value, text]) => ItemsView.make("option", { value }, text)));
    select.closest("label").hidden = entries.length < (first === undefined ? 2 : 1);
  };

  const fill = () => {
    const plain = (values) => values.map((value) => [value, value]);
    options("f-what", Object.entries(meta.flags), "anything");
    const counted = meta.labels.slice().sort((x, y) => y[1] - x[1] || (x[0] < y[0] ? -1 : 1)).slice(0, 400);
    options("f-label", counted.map(([name, n]) => [name, `${name} (${n})`]), "any");
    options("f-arm", meta.arms.map((arm, at) => [arm, names[at]]), "any");
    options("f-panel", plain(meta.panels));
    for (const facet of ["level", "group", "category"]) options(`f-${facet}`, plain(meta.facets[facet]), "all");
    options("f-score", plain(meta.columns.map(ItemsData.columnName)));
    const sorts = [["up", "lowest score first"], ["down", "highest score first"]];
    if (meta.arms.length > 1) sorts.push(["difference-down", "largest difference first"], ["difference-up", "smallest difference first"]);
    options("f-sort", meta.columns.length ? sorts : [], "order of the set");
    options("f-a", meta.arms.map((arm, at) => [arm, names[at]]));
    options("f-b", meta.arms.map((arm, at) => [arm, names[at]]));
  };

  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of FIELDS) {
      const control = get(`f-${name}`);
      control.value = given.get(name) ?? "";
      if (control.selectedIndex === -1) control.selectedIndex = 0;
      state[name] = control.value;
    }
    if (!given.get("b") && meta.arms.length > 1) get("f-a").value = state.a = given.get("a") || meta.arms[meta.arms.length - 1];
    state.complexity = given.get("complexity") || "";
    state.page = Math.max(0, Number(given.get("page")) || 0);
    state.item = given.get("item") || "";
  };

  const write = (replace) => {
    const said = new URLSearchParams();
    const sorted = state.sort.startsWith("difference");
    for (const name of FIELDS) {
      const control = get(`f-${name}`);
      const usual = control.tagName === "SELECT" ? control.options[0]?.value ?? "" : "";
      const side = name === "a" || name === "b";
      if (side ? sorted : state[name] !== usual) said.set(name, state[name]);
    }
    if (state.complexity) said.set("complexity", state.complexity);
    if (state.page) said.set("page", state.page);
    if (state.item) said.set("item", state.item);
    const address = `#${said}`;
    if (address !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", address);
  };

  const show = () => {
    found = ItemsData.choose(state);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const shown = found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    list.replaceChildren(...shown.map((item) => ItemsView.row(item, state, meta, names)));
    const n = (value) => value.toLocaleString("en");
    status.textContent = found.length === meta.items ? `${n(meta.items)} items` : `${n(found.length)} of ${n(meta.items)} items`;
    if (!found.length) list.append(ItemsView.make("li", { class: "muted nothing" }, "No item fits: loosen a filter, or reset them."));
    get("pager").hidden = pages < 2;
    get("where").textContent = `page ${n(state.page + 1)} of ${n(pages)}`;
    get("before").disabled = state.page === 0;
    get("after").disabled = state.page === pages - 1;
    for (const id of ["l-a", "l-b"]) get(id).hidden = !state.sort.startsWith("difference");
  };

  const turn = (by) => {
    state.page = Math.max(0, Math.min(state.page + by, Math.ceil(found.length / PAGE) - 1));
    write(true);
    show();
    scrollTo(0, 0);
    list.querySelector("a")?.focus({ preventScroll: true });
  };

  const render = (item, details) => {
    const choose = (at) => { chosen = at; render(item, details); };
    const place = found.indexOf(item);
    const step = (by, text) => {
      const button = ItemsView.make("button", { type: "button", class: "plain-button", disabled: !found[place + by] || place < 0 }, text);
      button.addEventListener("click", () => open(found[place + by]));
      return button;
    };
    const close = ItemsView.make("button", { type: "button", class: "plain-button" }, "Close");
    close.addEventListener("click", () => dialog.close());
    get("item-body").replaceChildren(
      ItemsView.make("header", { class: "item-head" }, ItemsView.make("h2", { id: "item-title" }, item.id), step(-1, "← Previous"), step(1, "Next →"), close),
      ItemsView.detail(item, details, state, meta, names, chosen, choose));
  };

  const open = async (item) => {
    if (!item) return;
    state.item = item.id;
    write(Boolean(opened));
    opened = item;
    if (!dialog.open) dialog.showModal();
    if (chosen >= meta.arms.length || state.arm) chosen = Math.max(0, meta.arms.indexOf(state.arm));
    try {
      const details = await ItemsData.details(item);
      if (opened === item) render(item, details);
    } catch (error) {
      get("item-body").replaceChildren(ItemsView.make("p", { class: "notice" }, error.message));
    }
    dialog.scrollTop = 0;
  };

  const closed = () => {
    const item = opened;
    opened = null;
    state.item = "";
    write(true);
    if (!item) return;
    const at = found.indexOf(item);
    if (at >= 0 && Math.floor(at / PAGE) !== state.page) {
      state.page = Math.floor(at / PAGE);
      write(true);
      show();
    }
    list.querySelector(`a[data-at="${item.at}"]`)?.focus();
  };

  const follow = () => {
    read();
    show();
    const item = state.item && ItemsData.items.find((each) => each.id === state.item);
    if (item) open(item);
    else if (dialog.open) dialog.close();
  };

  const changed = (event) => {
    if (event?.target?.id === "f-panel") {
      // The score follows the panel, so that scores and verdicts are of the same judges.
      const now = meta.columns[ItemsData.column(state)];
      const same = now?.panel && meta.columns.find((c) => c.metric === now.metric && c.panel === get("f-panel").value);
      if (same) get("f-score").value = ItemsData.columnName(same);
    }
    for (const name of FIELDS) state[name] = get(`f-${name}`).value;
    state.page = 0;
    write(true);
    show();
  };

  const move = (by) => {
    const rows = [...list.querySelectorAll("a")];
    const at = rows.indexOf(document.activeElement);
    if (at + by < 0 && at >= 0 && state.page > 0) return turn(-1);
    if (at + by >= rows.length && get("after").disabled === false) return turn(1);
    rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  };

  const key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (dialog.open) {
      const by = { j: 1, k: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by && opened) {
        event.preventDefault();
        open(found[found.indexOf(opened) + by]);
      }
      return;
    }
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const does = { "/": () => get("f-q").focus(), j: () => move(1), k: () => move(-1), n: () => turn(1), p: () => turn(-1) }[event.key];
    if (does) {
      event.preventDefault();
      does();
    }
  };

  ItemsData.start((n, of) => { status.textContent = `Loading: ${n} of ${of} items…`; }).then((told) => {
    meta = told;
    names = ItemsView.shortNames(meta.arms);
    fill();
    follow();
    get("filters").addEventListener("input", changed);
    get("filters").addEventListener("submit", (event) => event.preventDefault());
    get("filters").addEventListener("reset", () => { state.complexity = ""; setTimeout(() => changed()); });
    get("before").addEventListener("click", () => turn(-1));
    get("after").addEventListener("click", () => turn(1));
    list.addEventListener("click", (event) => {
      const row = event.target.closest("a[data-at]");
      if (!row) return;
      event.preventDefault();
      open(ItemsData.items[Number(row.dataset.at)]);
    });
    dialog.addEventListener("close", closed);
    addEventListener("keydown", key);
    addEventListener("popstate", follow);
    document.documentElement.classList.add("ready");
  }).catch((error) => { status.textContent = error.message; });
})();
