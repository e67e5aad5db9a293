// The start page: the sentence is read as it is written, the graph can be changed, and a run is
// asked for.

import { createGraphEditor } from "./graph-editor.js";

const PAUSE = 250;
const $ = (id) => document.getElementById(id);
const form = $("start");
const text = $("text");
const key = form.elements.key.value;
let detached = false;
let intent = null;
let waiting = null;
let asking = null;
let sent = { body: "", times: 0 };
let refused = false;
let leaving = false;

function parsed(value) {
  try {
    return value ? JSON.parse(value) : null;
  } catch {
    return null;
  }
}

// What the browser's Back brings back: the entry's own state is this page's draft.
const draft = history.state?.draft ?? null;
const first = draft?.scene ?? parsed($("editor").dataset.scene) ?? { objects: [], relations: [] };
intent = first.intent ?? null;
const editor = createGraphEditor($("editor"), first, {
  onChange: changedByHand,
  empty: "Nothing here yet. Write a sentence above, or name an object to begin.",
});

function counted(number, noun) {
  return number === 1 ? `1 ${noun}` : `${number} ${noun}s`;
}

async function asked(url, body, signal) {
  let reply;
  try {
    reply = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer: check that it is running, then try again.");
  }
  const found = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    throw Object.assign(new Error(found.detail || `The service answered ${reply.status}: try again.`),
      { status: reply.status, unread: found.unread ?? [] });
  }
  return found;
}

/** The graph as it was changed by hand, with what the sentence says of the whole picture. */
function byHand() {
  const scene = editor.scene;
  if (!intent) return scene;
  const ids = new Set(scene.objects.map((item) => item.id));
  const exclusions = (intent.exclusions ?? []).filter((one) => !one.of || ids.has(one.of));
  const counts = (intent.counts ?? [])
    .map((one) => ({ ...one, objects: one.objects.filter((id) => ids.has(id)) }))
    .filter((one) => one.objects.length);
  return { ...scene, intent: { ...intent, exclusions, counts } };
}

/** Have the service read ``input``; none where a newer reading has begun. */
async function read(input) {
  asking?.abort();
  asking = new AbortController();
  try {
    return await asked("/v1/parse", { ...input, drawn_by: $("profile").value || null }, asking.signal);
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error;
  }
}

const MOST_QUOTED = 6;

/** Passages as they are quoted, by the reason for which they were not read. */
function byReason(passages) {
  const found = new Map();
  for (const { text: said, reason } of passages) {
    found.set(reason, [...(found.get(reason) ?? []), `“${said}”`]);
  }
  return [...found].map(([reason, said]) => {
    const more = said.length > MOST_QUOTED ? ` and ${said.length - MOST_QUOTED} more` : "";
    return [reason, `${said.slice(0, MOST_QUOTED).join(", ")}${more}`];
  });
}

/** Underline what the scene does not hold; places count characters, not halves of them. */
function underline(passages) {
  const characters = [...text.value];
  const parts = [];
  let at = 0;
  for (const { start, end, reason } of passages) {
    const mark = document.createElement("u");
    mark.title = reason;
    mark.textContent = characters.slice(start, end).join("");
    parts.push(characters.slice(at, start).join(""), mark);
    at = end;
  }
  // A last line without a letter has no height.
  $("underlay").replaceChildren(...parts, `${characters.slice(at).join("")}\u200b`);
  $("underlay").hidden = !passages.length;
  follow();
}

function follow() {
  const under = $("underlay");
  under.style.width = `${text.clientWidth + 2}px`;
  under.style.height = `${text.offsetHeight}px`;
  under.scrollTop = text.scrollTop;
}

function warn(words, refusal = false) {
  $("warned").textContent = words;
  $("warned").hidden = !words;
  $("warned").classList.toggle("refused", refusal);
  refused = refusal;
  settle();
}

/** The button is off while the run is asked for, and where nothing can be drawn. */
function settle() {
  $("draw").disabled = leaving || refused;
}

/** Say before anything is drawn what is in another language. */
function refuse(passages) {
  underline(passages);
  $("read").textContent = "Nothing is drawn of this sentence as it stands.";
  warn(byReason(passages).map(([reason, said]) => `${said} is ${reason}: write the sentence in English.`).join(" "), true);
}

/** Offer what a sentence could mean: a choice takes its place. */
function askBack(doubts) {
  $("doubts").replaceChildren(...doubts.map(({ text: passage, question, choices }) => {
    const asked = document.createElement("p");
    asked.className = "small";
    asked.textContent = `“${passage}”: ${question}`;
    const part = document.createElement("div");
    part.className = "doubt";
    part.append(asked, ...choices.map(({ label, sentence }) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "example";
      button.textContent = label;
      button.addEventListener("click", () => take(sentence));
      return button;
    }));
    return part;
  }));
  $("doubts").hidden = !doubts.length;
}

function take(sentence) {
  text.value = sentence;
  attach(false);
  clearTimeout(waiting);
  readSentence();
  text.focus();
}

function show(found) {
  const facts = found?.facts ?? [];
  const passages = found?.unread ?? [];
  const doubts = found?.doubts ?? [];
  // The first warnings are of the passages, which are underlined here, and of the doubts.
  const warnings = (found?.warnings ?? []).slice((passages.length ? 1 : 0) + doubts.length);
  const left = byReason(passages).map(([reason, said]) => `Not checked, ${reason}: ${said}.`);
  warn([...left, ...warnings.map(sentenceCase)].join(" "), found?.drawable === false);
  underline(passages);
  askBack(doubts);
  $("facts").replaceChildren(...facts.map((fact) => {
    const line = document.createElement("li");
    line.textContent = fact.statement;
    return line;
  }));
  $("no-facts").hidden = facts.length > 0;
  $("fact-count").textContent = facts.length ? String(facts.length) : "";
  $("triplets").value = found?.triplets ?? "";
  if (document.activeElement !== $("json")) $("json").value = JSON.stringify(editor.scene, null, 2);
  $("json-problem").hidden = true;
}

function remember() {
  history.replaceState({ draft: { scene: byHand(), text: text.value, detached } }, "");
}

function attach(value) {
  detached = value;
  const link = $("link");
  link.classList.toggle("detached", detached);
  link.textContent = detached
    ? "Changed by hand: this graph is drawn, with the style, light and time that the sentence says."
    : "Follows the sentence.";
  $("reread").hidden = !detached || !text.value.trim();
  form.classList.toggle("by-hand", detached);
}

async function readSentence() {
  const now = text.value;
  if (!now.trim()) {
    asking?.abort();
    intent = null;
    editor.load({ objects: [], relations: [] });
    $("read").textContent = "The things, their attributes and how they stand to each other are recognised as you write.";
    show(null);
    remember();
    return;
  }
  try {
    const found = await read({ text: now });
    if (found === null || detached) return;
    editor.load(found.scene);
    intent = found.scene.intent;
    const { objects, relations } = found.scene;
    const awaited = found.awaits ? ` ${found.awaits} reads the sentence anew as the run begins.` : "";
    $("read").textContent = !objects.length ? `${found.awaits} reads the sentence as the run begins.` : `Recognised: ${counted(objects.length, "object")}, ${counted(relations.length, "relation")}; ${counted(found.facts.length, "fact")} will be checked (a ${found.level} scene).${awaited}`;
    show(found);
  } catch (error) {
    if (error.status === 422) {
      intent = null;
      editor.load({ objects: [], relations: [] });
      show(null);
    }
    const passages = error.unread ?? [];
    if (passages.length) {
      refuse(passages);
    } else {
      // A sentence that names nothing cannot be drawn; a service that is away may be back.
      warn("", error.status === 422);
      underline([]);
      $("read").textContent = sentenceCase(error.message);
    }
  }
  remember();
}

function sentenceCase(words) {
  // Ids and addresses stay as they are.
  const begun = /^\S*(?:[:/_=@.]\S|\d)/.test(words) ? words : words.charAt(0).toUpperCase() + words.slice(1);
  return `${begun}${/[.!?]$/.test(words) ? "" : "."}`;
}

async function changedByHand(scene) {
  clearTimeout(waiting);
  attach(true);
  remember();
  fail("");
  if (!scene.objects.length) {
    asking?.abort();
    show(null);
    warn("", true);
    $("read").textContent = "The graph is empty: add an object, or read the sentence again.";
    return;
  }
  try {
    const found = await read({ scene: byHand() });
    if (found === null) return;
    show(found);
    $("read").textContent = `The graph below is drawn: ${counted(found.facts.length, "fact")} will be checked (a ${found.level} scene).`;
  } catch (error) {
    fail(error.message);
  }
}

function fail(message) {
  $("problem").textContent = message ? sentenceCase(message) : "";
  $("problem").hidden = !message;
  if (message) $("problem").scrollIntoView({ block: "nearest" });
}

text.addEventListener("scroll", follow, { passive: true });
new ResizeObserver(follow).observe(text);
text.addEventListener("input", () => {
  // What was underlined has moved; the next reading underlines it anew.
  $("underlay").hidden = true;
  if (detached) {
    if (!text.value.trim()) intent = null;
    $("reread").hidden = !text.value.trim();
    remember();
    return;
  }
  clearTimeout(waiting);
  waiting = setTimeout(readSentence, PAUSE);
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
$("reread").addEventListener("click", () => {
  attach(false);
  readSentence();
  text.focus();
});
for (const link of document.querySelectorAll(".examples .example")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    take(link.textContent);
  });
}
$("json").addEventListener("change", () => {
  try {
    const scene = JSON.parse($("json").value);
    if (!Array.isArray(scene?.objects)) throw new Error('write {"objects": [...], "relations": [...]}');
    editor.load({ objects: scene.objects, relations: scene.relations ?? [] });
    changedByHand(editor.scene);
  } catch (error) {
    $("json-problem").textContent = `This is not a scene graph: ${error.message}`;
    $("json-problem").hidden = false;
  }
});

function about() {
  for (const name of ["profile", "strategy"]) {
    const option = $(name).selectedOptions[0];
    $(`${name}-about`).textContent = option?.dataset.about ?? "";
  }
  const profile = $("profile").selectedOptions[0];
  $("strategy").options[0].textContent = `As the profile has it: ${profile?.dataset.strategy ?? ""}`;
  const limits = [$("usd").value && `$${$("usd").value}`, $("images").value && counted(Number($("images").value), "image")];
  $("chosen").textContent = [
    profile?.value, $("strategy").value, counted(Number($("rounds").value || 3), "round"),
    `seed ${$("seed").value || 0}`, ...limits,
  ].filter(Boolean).join(" · ");
}
form.querySelector(".options").addEventListener("input", about);
$("profile").addEventListener("change", () => {
  // Another profile's models may know other words.
  if (detached) changedByHand(editor.scene);
  else if (text.value.trim()) readSentence();
});

function request() {
  const body = {
    rounds: Number($("rounds").value || 3),
    seed: Number($("seed").value || 0),
    budget: {},
  };
  if ($("profile").value) body.profile = $("profile").value;
  if ($("strategy").value) body.strategy = $("strategy").value;
  if ($("usd").value) body.budget.usd = Number($("usd").value);
  if ($("images").value) body.budget.images = Number($("images").value);
  // The sentence goes as it was written: the service reads it as it did here.
  if (!detached) body.text = text.value;
  else body.scene = byHand();
  return body;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if ($("draw").disabled) return;
  clearTimeout(waiting);
  fail("");
  const body = request();
  if (body.text !== undefined && !body.text.trim()) {
    fail("Write a sentence, or add an object to the graph.");
    text.focus();
    return;
  }
  // The same request sent twice is one run; a changed one is another.
  const told = JSON.stringify(body);
  if (told !== sent.body) sent = { body: told, times: sent.times + 1 };
  leaving = true;
  settle();
  $("going").textContent = "Asking for the run…";
  try {
    const run = await asked("/v1/refinements", { ...body, idempotency_key: `${key}-${sent.times}` });
    remember();
    location.assign(`/runs/${encodeURIComponent(run.id)}`);
  } catch (error) {
    // The hint below the sentence says it, where it is about the sentence's own words.
    if (error.unread?.length) refuse(error.unread);
    else fail(error.message);
    leaving = false;
    settle();
    $("going").textContent = "";
  }
});
addEventListener("pageshow", () => {
  leaving = false;
  settle();
  $("going").textContent = "";
});

for (const part of document.querySelectorAll("[data-script]")) part.hidden = false;
if (draft) text.value = draft.text;
attach(draft ? draft.detached : $("editor").dataset.detached === "yes");
about();
if (detached) changedByHand(editor.scene);
else if (text.value.trim()) {
  // The sentence is read here as it was by the service, which told its problem above.
  fail("");
  readSentence();
} else show(null);
// A phone's keyboard would cover the page.
if (!text.value && matchMedia("(pointer: fine)").matches) text.focus({ preventScroll: true });
