"use strict";
const ANSWERS = ["yes", "no", "unsure"];
const COLUMNS = ["image_id", "source", "relation", "target", "answer", "rater", "first"];
const $ = (id) => document.getElementById(id);
const place = `scenewright spotcheck ${KEY}`;
// Of a relation: its answer, whether it was left since, and the answer before that if it changed.
let kept = {};
let photo = 0;
let relation = 0;

try {
  const found = JSON.parse(localStorage.getItem(place) || "{}");
  // A page that showed the votes from the start kept the bare answers.
  kept = Object.fromEntries(Object.entries(found.answers || {}).map(([name, mine]) =>
    [name, typeof mine === "string" ? { answer: mine, left: true } : mine]));
  $("rater").value = found.rater || "";
} catch { /* A browser that keeps nothing still lets answers be exported. */ }

function keep() {
  try {
    localStorage.setItem(place, JSON.stringify({ answers: kept, rater: $("rater").value }));
  } catch { /* As above. */ }
}

const name_of = (one, r) => JSON.stringify([one.id, r.source, r.relation, r.target]);
const total = DATA.photos.reduce((sum, one) => sum + one.relations.length, 0);

function element(kind, text, style) {
  const made = document.createElement(kind);
  if (text) made.textContent = text;
  if (style) made.className = style;
  return made;
}

function draw_boxes(one) {
  const svg = $("boxes");
  svg.setAttribute("viewBox", `0 0 ${one.size[0]} ${one.size[1]}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren();
  const now = one.relations[relation];
  const marked = (id) => (id === now.source ? "one" : id === now.target ? "two" : "");
  const ids = Object.keys(one.boxes).sort((a, b) => marked(a).length - marked(b).length);
  for (const id of ids) {
    const [left, top, right, bottom] = one.boxes[id];
    const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    group.setAttribute("class", marked(id));
    rect.setAttribute("x", left);
    rect.setAttribute("y", top);
    rect.setAttribute("width", right - left);
    rect.setAttribute("height", bottom - top);
    group.append(rect);
    svg.append(group);
  }
}

function show() {
  const one = DATA.photos[photo];
  $("name").textContent = DATA.name;
  $("photo").src = one.photo;
  $("photo").alt = `photo ${one.id}`;
  // As large as fits: small photos are drawn larger, tall ones do not leave the screen.
  $("frame").style.width = `min(100%, ${(78 * one.size[0]) / one.size[1]}vh)`;
  $("caption").textContent = `Photo ${photo + 1} of ${DATA.photos.length}: ${one.id}`;
  draw_boxes(one);
  const list = $("relations");
  list.replaceChildren();
  one.relations.forEach((r, at) => {
    const row = element("li", "", at === relation ? "now" : "");
    const words = element("span");
    const [source, verb, target] = r.words;
    words.append(element("span", source[0].toUpperCase() + source.slice(1), "one"), ` ${verb} `,
      element("span", target, "two"), ".");
    const mine = kept[name_of(one, r)];
    const answers = element("span", "", "answers");
    answers.setAttribute("role", "group");
    answers.setAttribute("aria-label", words.textContent);
    for (const answer of ANSWERS) {
      const button = element("button", answer, answer);
      button.type = "button";
      button.setAttribute("aria-pressed", String(mine?.answer === answer));
      button.addEventListener("click", (event) => {
        event.stopPropagation();
        go(photo, at);
        say(answer, false);
      });
      answers.append(button);
    }
    row.append(words, answers);
    // What others said sways an answer: it is shown once this one is given and left.
    if (mine?.left) row.append(element("small", r.votes ? `votes ${r.votes}` : `score ${r.score}`));
    row.addEventListener("click", () => { go(photo, at); show(); });
    list.append(row);
  });
  list.children[relation].scrollIntoView({ block: "nearest" });
  const done = DATA.photos.reduce((sum, p) =>
    sum + p.relations.filter((r) => kept[name_of(p, r)]).length, 0);
  $("progress").textContent = `${done} of ${total} relations answered`;
  $("bar").style.width = `${(100 * done) / total}%`;
  keep();
}

function say(answer, onward) {
  const one = DATA.photos[photo];
  const name = name_of(one, one.relations[relation]);
  const mine = kept[name] || {};
  const first = mine.first || (mine.left && mine.answer !== answer ? mine.answer : "");
  kept[name] = { ...mine, answer, first };
  if (onward) step(1);
  else show();
}

function go(to_photo, to_relation) {
  if (to_photo === photo && to_relation === relation) return;
  const one = DATA.photos[photo];
  const mine = kept[name_of(one, one.relations[relation])];
  if (mine) mine.left = true;
  [photo, relation] = [to_photo, to_relation];
}

function step(by) {
  const size = DATA.photos[photo].relations.length;
  if (relation + by >= 0 && relation + by < size) {
    go(photo, relation + by);
    show();
  } else if (by > 0 && photo + 1 < DATA.photos.length) {
    turn(1);
  } else if (by < 0 && photo > 0) {
    go(photo - 1, DATA.photos[photo - 1].relations.length - 1);
    show();
  } else {
    show();
  }
}

function turn(by) {
  go(Math.min(Math.max(photo + by, 0), DATA.photos.length - 1), 0);
  show();
}

function rows() {
  const rater = $("rater").value.trim();
  return DATA.photos.flatMap((one) => one.relations
    .filter((r) => kept[name_of(one, r)])
    .map((r) => ({ image_id: one.id, source: r.source, relation: r.relation, target: r.target,
      answer: kept[name_of(one, r)].answer, rater, first: kept[name_of(one, r)].first || "" })));
}

const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;

function as_csv() {
  const lines = rows().map((row) => COLUMNS.map((name) => quoted(row[name])).join(","));
  return `${[COLUMNS.join(","), ...lines].join("\r\n")}\r\n`;
}

function as_json() {
  return JSON.stringify({ set: DATA.name, key: KEY, answers: rows() }, null, 2);
}

function give(text, kind, ending) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = `spotcheck-${DATA.name}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const answers = { y: "yes", n: "no", u: "unsure" };
  const moves = { ArrowDown: () => step(1), ArrowUp: () => step(-1),
    ArrowRight: () => turn(1), ArrowLeft: () => turn(-1) };
  if (answers[event.key.toLowerCase()]) say(answers[event.key.toLowerCase()], true);
  else if (moves[event.key]) moves[event.key]();
  else return;
  event.preventDefault();
});
$("before").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));
$("rater").addEventListener("change", keep);
$("csv").addEventListener("click", () => give(as_csv(), "text/csv", "csv"));
$("json").addEventListener("click", () => give(as_json(), "application/json", "json"));
show();
