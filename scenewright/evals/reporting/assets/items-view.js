"use strict";
// The items as elements. All text goes in as text; only the drawing of a graph, which the report made
// and escaped itself, is parsed, and as an image at that.
const ItemsView = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MEANINGS = { yes: "holds", no: "does not hold", void: "not asked, an object it needs is absent", unscored: "not judged", pending: "not judged yet" };
  const KINDS = [["object", "Objects"], ["attribute", "Attributes"], ["relation", "Relations"]];
  const DISPUTED = 0.9;

  const make = (tag, given = {}, ...inside) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (value === null || value === undefined || value === false) continue;
      element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...inside.filter((part) => part !== null && part !== undefined && part !== ""));
    return element;
  };
  const icon = (state, spoken = true) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", `icon s-${state}`);
    if (spoken) {
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", MEANINGS[state]);
    } else svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(SVG, "use");
    use.setAttribute("href", `#i-${state}`);
    svg.append(use);
    return svg;
  };
  const number = (value) => (value === null || value === undefined ? "–" : Math.abs(value) < 100 ? value.toFixed(2) : value.toFixed(1));
  const percent = (value) => {
    if (value === null || value === undefined) return "";
    if (value > 0 && value < 0.005) return "<1%";
    return value < 1 && value >= 0.995 ? ">99%" : `${Math.round(value * 100)}%`;
  };

  // What all arms have in common is left out of their names.
  const shortNames = (arms) => {
    const parts = arms.map((arm) => arm.split("/"));
    const seed = parts.map((p) => p[p.length - 1]);
    const backend = parts.map((p) => p[0]);
    const same = (list) => list.every((value) => value === list[0]);
    return parts.map((p, at) => {
      const shown = [];
      if (!same(backend)) shown.push(backend[at]);
      shown.push(p.slice(1, -1).join("/"));
      if (!same(seed)) shown.push(`seed ${seed[at]}`);
      return shown.join(" · ") || arms[at];
    });
  };

  const picture = (thumb, alt, lacking) =>
    thumb
      ? make("img", { class: "photo", src: `thumbs/${thumb}.webp`, alt, loading: "lazy" })
      : make("div", { class: "photo lost", role: "img", "aria-label": `${alt}: ${lacking}` }, make("span", {}, lacking));

  const FLAGS = { 1: ["no", "object"], 2: ["no", "attribute"], 4: ["no", "relation"], 16: ["unscored", "unscored"], 32: ["pending", "undecided"] };
  const marks = (bits) => {
    const list = make("span", { class: "marks" });
    if (bits & 256) list.append(make("span", { class: "mark" }, icon("yes"), "all"));
    for (const [bit, [state, text]] of Object.entries(FLAGS)) if (bits & Number(bit)) list.append(make("span", { class: "mark" }, icon(state, false), text));
    return list;
  };

  const row = (item, state, meta, names) => {
    const panel = Math.max(0, meta.panels.indexOf(state.panel));
    const scores = item.scores[ItemsData.column(state)] || [];
    const shots = make("div", { class: "shots" });
    if (item.photo) shots.append(make("figure", {}, picture(item.photo, "Original photo", ""), make("figcaption", {}, make("span", { class: "arm" }, "original"))));
    meta.arms.forEach((arm, at) => {
      const bits = item.flags[at][panel] ?? 0;
      const lacking = bits & 64 ? "drawing failed" : "no picture";
      const known = scores[at] ?? null;
      shots.append(
        make("figure", { class: state.arm === arm ? "chosen" : null },
          picture(item.thumbs[at], `Picture by ${arm}`, lacking),
          make("figcaption", {}, make("span", { class: "arm" }, names[at]), make("span", { class: "score" }, number(known)), marks(bits))));
    });
    const classes = meta && Object.keys(meta.facets).map((facet, at) => [facet, meta.facets[facet][item.classes[at]]]).filter(([facet, name]) => name && facet !== "complexity").map(([, name]) => name);
    const gap = state.sort.startsWith("difference") ? ItemsData.difference(item, state) : null;
    return make("li", {},
      make("a", { class: "card row", href: "#", "data-at": item.at },
        make("div", { class: "about" },
          make("b", {}, item.title || item.id),
          item.text ? make("span", { class: "muted small said" }, item.text) : null,
          make("span", { class: "muted small" }, [item.id, ...classes].join(" · ")),
          gap === null ? null : make("span", { class: "small" }, `difference ${gap > 0 ? "+" : gap < 0 ? "−" : "±"}${number(Math.abs(gap))}`)),
        shots));
  };

  const graph = (details, shown) => {
    if (!details.graph) return null;
    const parsed = new DOMParser().parseFromString(`<svg xmlns="${SVG}">${details.graph}</svg>`, "image/svg+xml");
    const drawn = parsed.querySelector("svg svg");
    if (!drawn) return null;
    const states = new Map(details.facts.map(([id, , statement], at) => [id, [(shown[at] || ["pending"])[0], statement]]));
    for (const part of drawn.querySelectorAll("[data-fact]")) {
      const [state, statement] = states.get(part.getAttribute("data-fact")) || ["pending", ""];
      part.setAttribute("class", part.getAttribute("class").replace(/s-\w+/, `s-${state}`));
      if (part.hasAttribute("aria-label")) part.setAttribute("aria-label", `${statement}: ${MEANINGS[state]}`);
      for (const use of part.querySelectorAll("use")) use.setAttribute("href", `#i-${state}`);
    }
    return document.importNode(drawn, true);
  };

  const answers = (judged, at) => {
    const box = make("div", { class: "answers" });
    const verdict = judged.verdicts[at];
    if (verdict) {
      const [state, probability, disagreement, reason] = verdict;
      box.append(make("p", { class: "panel-says" }, icon(state, false), ` ${MEANINGS[state]} ${percent(probability)}`));
      if (disagreement !== null && state !== "void") box.append(make("p", { class: "muted small" }, `disagreement ${number(disagreement)} bit`));
      if (reason) box.append(make("p", { class: "muted small" }, reason));
    }
    for (const [judge, state, choice, probability, method, why] of judged.answers[at] || []) {
      box.append(make("p", { class: "small answer" }, icon(state), make("span", { class: "who" }, judge), ` ${choice || state} ${percent(probability)}${method ? ` (${method})` : ""}`));
      if (why) box.append(make("p", { class: "muted small why" }, why));
    }
    if (!box.childElementCount) box.append(make("p", { class: "muted small" }, "not judged"));
    return box;
  };

  const facts = (details, panel, names) => {
    const body = make("tbody");
    for (const [kind, title] of KINDS) {
      const of = details.facts.map((fact, at) => [at, ...fact]).filter((fact) => fact[2] === kind);
      if (!of.length) continue;
      body.append(make("tr", { class: "group" }, make("th", { colspan: names.length + 1, scope: "rowgroup" }, title)));
      for (const [at, , , statement, question] of of) {
        const head = make("button", { type: "button", class: "fact", "aria-expanded": "false" }, make("span", { class: "statement" }, statement), make("span", { class: "question" }, question));
        const line = make("tr", { class: "fact-row" }, make("th", { scope: "row" }, head));
        for (const arm of details.arms) {
          const verdict = (arm.panels[panel] || { verdicts: {} }).verdicts[at];
          const cell = make("td");
          if (verdict) {
            const disputed = verdict[2] >= DISPUTED && verdict[0] !== "void";
            cell.append(make("span", { class: "main" }, icon(verdict[0]), make("span", { class: "num" }, percent(verdict[1])), disputed ? make("span", { class: "disputed", title: "the panel is undecided: high disagreement" }, "≠") : null));
          } else cell.append(make("span", { class: "muted" }, "–"));
          line.append(cell);
        }
        const more = make("tr", { class: "more", hidden: true }, make("td", {}));
        head.addEventListener("click", () => {
          const open = more.hidden;
          if (open && more.childElementCount === 1) for (const arm of details.arms) more.append(make("td", {}, answers(arm.panels[panel] || { verdicts: {}, answers: {} }, at)));
          more.hidden = !open;
          head.setAttribute("aria-expanded", String(open));
        });
        body.append(line, more);
      }
    }
    return make("div", { class: "scroll" },
      make("table", { class: "facts" },
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Fact"), ...names.map((name) => make("th", { scope: "col" }, name)))), body));
  };

  const shot = (arm, at, item, state, meta, names, images, choose, chosen) => {
    const kept = arm.rounds.find((round) => round.kept);
    const failed = arm.rounds.find((round) => round.state === "failed");
    const why = failed && !kept ? `drawing failed: ${failed.reason}` : "no picture";
    const shown = picture(kept ? kept.thumb : "", `Picture by ${meta.arms[at]}`, kept ? "the file is missing" : why);
    const known = (item.scores[ItemsData.column(state)] || [])[at] ?? null;
    const others = arm.rounds.filter((round) => round !== kept && round.thumb);
    const pick = make("button", { type: "button", class: "pick", "aria-pressed": String(chosen === at) }, names[at]);
    pick.addEventListener("click", () => choose(at));
    return make("figure", { class: chosen === at ? "chosen" : null },
      kept && kept.thumb ? make("a", { href: `${images}/${kept.image}.png`, target: "_blank", rel: "noopener", title: "Full size" }, shown) : shown,
      make("figcaption", {}, pick, make("span", { class: "score" }, number(known)),
        kept && kept.prompt ? make("span", { class: "muted small prompt" }, kept.prompt) : null,
        kept && kept.dropped && kept.dropped[0] ? make("span", { class: "small" }, `${kept.dropped[0]} tokens and ${kept.dropped[1]} facts of this prompt were not read`) : null,
        kept && arm.rounds.length > 1 ? make("span", { class: "muted small" }, `round ${kept.round} kept`) : null,
        others.length ? make("span", { class: "rounds" }, ...others.map((round) => make("span", { title: round.prompt }, picture(round.thumb, `Round ${round.round} by ${meta.arms[at]}`, ""), make("span", { class: "muted small" }, `round ${round.round}`)))) : null));
  };

  const detail = (item, details, state, meta, names, chosen, choose) => {
    const panel = Math.max(0, meta.panels.indexOf(state.panel));
    const shots = make("div", { class: "shots large" });
    if (details.photo) shots.append(make("figure", {}, picture(details.photo, "Original photo", ""), make("figcaption", {}, make("span", { class: "arm" }, "original"))));
    details.arms.forEach((arm, at) => shots.append(shot(arm, at, item, state, meta, names, meta.images, choose, chosen)));
    const drawn = graph(details, ((details.arms[chosen] || { panels: [] }).panels[panel] || { verdicts: {} }).verdicts);
    const box = make("div", {});
    if (details.prompt) box.append(make("blockquote", {}, details.prompt));
    if (details.words && details.words !== details.prompt) box.append(make("p", { class: "muted" }, details.words));
    box.append(shots);
    if (drawn) box.append(make("h3", {}, `Scene, as in the picture by ${names[chosen] || ""}`), make("div", { class: "scroll centre card" }, drawn));
    if (details.facts.length) box.append(make("h3", {}, "Facts"), make("p", { class: "muted small" }, "A fact opens to every judge’s answer."), facts(details, panel, names));
    return box;
  };

  return { make, row, detail, shortNames };
})();
