import { morph } from "/static/morph.js";
import { openPanel } from "/static/edit-panel.js";
import { post, text } from "/static/service.js";

const KINDS = ["run_started", "composed", "planned", "tool_called", "generated", "answered",
  "judged", "missing", "edited", "paused", "resumed", "finished"];
const STILL = ["paused", "finished", "failed", "cancelled"];
const NAMES = { queued: "Waiting", running: "At work", paused: "Paused", finished: "Finished",
  failed: "Failed", cancelled: "Cancelled" };
const PAUSE_MS = 330;
const TELL_MS = 700;
const COPIED_MS = 2500;

const byId = (id) => document.getElementById(id);
const main = byId("main");
const run = main.dataset.run;
const api = `/v1/refinements/${run}`;
let heard = Number(main.dataset.events) - 1;
let still = main.dataset.still === "true";
let status = main.dataset.status;
let source = null;
let step = null;
let partial = null;
let chosenTab = null;
let panel = null;

// What happens, in words for those who cannot see the page.
const said = [];
function tell(words) {
  if (!words || said.includes(words)) return;
  said.push(words);
  if (said.length > 1) return;
  setTimeout(() => { byId("told").textContent = said.splice(0).join(" "); }, TELL_MS);
}

function inWords(kind, data) {
  if (kind === "planned") return `Round ${data.round} begins: ${data.does}.`;
  if (kind === "generated" && data.purpose === "candidate") return `Round ${data.round} is drawn.`;
  if (kind === "selected") {
    const pasted = data.winners.length === 1 ? "one proposal is" : `${data.winners.length} proposals are`;
    return `Round ${data.round}: ${pasted} pasted, facts gained ${data.gained.length}, lost ${data.lost.length}.`;
  }
  if (kind === "judged" && data.role === "loop") {
    const stated = data.card.verdicts.filter((verdict) => !verdict.fact_id.startsWith("real:"));
    const count = (state) => stated.filter((verdict) => verdict.state === state).length;
    const open = count("unscored") ? `, ${count("unscored")} not judged` : "";
    return `Round ${data.round} is judged: ${count("yes")} of ${stated.length} facts hold${open}.`;
  }
  if (kind === "finished") return `The run is finished: round ${data.best_round} is kept.`;
  if (kind === "status" && data.status !== status) {
    return { paused: "The run is paused and waits for you.", failed: `The run failed: ${data.error}`,
      cancelled: "The run is cancelled.", running: "The run is at work." }[data.status] ?? "";
  }
  return "";
}

function trouble(words) {
  const place = byId("trouble");
  place.textContent = words;
  place.hidden = !words;
}

function showStep() {
  const bar = byId("steps");
  const drawing = step && status === "running";
  bar.hidden = !drawing;
  if (!drawing) return;
  bar.max = step.of;
  bar.value = step.step;
  const what = { reference: "what is missing", draft: "drafts", proposal: "proposals" }[step.purpose] ?? "the scene";
  const wish = { pause: "; it pauses before the next round", cancel: "; it stops now" }[main.dataset.wants] ?? "";
  byId("now").textContent = `Round ${step.round}: drawing ${what} ${step.step}/${step.of}${wish}`;
}

// The picture as it stands: large while there is no other one, else where the round's will be.
function showPartial() {
  const drawing = partial && status === "running";
  const place = main.querySelector(".hero-shot [data-emerging]")
    ?? byId(`round-${partial?.round}`)?.querySelector("[data-emerging]");
  for (const old of main.querySelectorAll(".emerging")) if (!drawing || !place?.contains(old)) old.remove();
  if (!drawing || !place) return;
  const picture = place.querySelector(".emerging") ?? place.appendChild(document.createElement("img"));
  picture.className = "emerging";
  picture.src = partial.image;
  picture.alt = `Round ${partial.round} while it is drawn`;
  place.querySelector("span").textContent = partial.purpose === "reference" ? "What is missing is being drawn" : "Being drawn";
}

function take(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("main");
  const rail = main.querySelector(".rail");
  const rounds = rail?.children.length ?? 0;
  const atEnd = rail && rail.scrollLeft + rail.clientWidth > rail.scrollWidth - 24;
  morph(main, fresh);
  document.title = main.dataset.title;
  status = main.dataset.status;
  still = main.dataset.still === "true";
  const tab = (chosenTab && byId(chosenTab)) || main.querySelector("input[name=round][checked]");
  if (tab) tab.checked = true;
  const railNow = main.querySelector(".rail");
  if (railNow && rounds && railNow.children.length > rounds && atEnd) {
    railNow.scrollTo({ left: railNow.scrollWidth });
  }
  showStep();
  showPartial();
  panel?.stands(status, still);
}

// One look at a time, and a pause between two: what happens meanwhile is seen by the next one.
let wanted = false;
let looking = null;
function refresh() {
  wanted = true;
  looking ??= look().finally(() => { looking = null; });
  return looking;
}

async function look() {
  while (wanted) {
    wanted = false;
    const began = performance.now();
    try {
      take(await text(`/runs/${run}/main`));
      trouble("");
    } catch (error) {
      trouble(error.message);
    }
    // A slow service is asked less often.
    const pause = Math.max(PAUSE_MS, performance.now() - began);
    await new Promise((resolve) => { setTimeout(resolve, pause); });
  }
}

function hear(event) {
  const data = JSON.parse(event.data);
  if (event.lastEventId) heard = Math.max(heard, Number(event.lastEventId));
  if (event.type === "step") {
    step = data;
    showStep();
    return;
  }
  if (event.type === "partial_image") {
    partial = data;
    showPartial();
    return;
  }
  if (event.type === "retrying") {
    step = null;
    partial = null;
    showStep();
    showPartial();
    byId("now").textContent = `Attempt ${data.attempt} of a request to ${data.model} failed (${data.reason}); it is sent again`;
    return;
  }
  if (event.type === "generated") {
    step = null;
    partial = null;
  }
  tell(inWords(event.type, data));
  if (event.type === "status") {
    status = data.status;
    still = STILL.includes(status);
    if (still) step = partial = null;
    const sign = main.querySelector(".status");
    sign.className = `status st-${status}`;
    sign.textContent = NAMES[status];
  }
  refresh();
}

function connect() {
  source?.close();
  source = new EventSource(`${api}/events?after=${heard}`);
  for (const kind of [...KINDS, "step", "partial_image", "retrying", "status"]) source.addEventListener(kind, hear);
  source.addEventListener("error", () => {
    if (still) {
      source.close();
      refresh();
    } else if (source.readyState === EventSource.CLOSED) {
      trouble("The service no longer tells what happens: reload the page.");
    } else {
      trouble("The connection to the service is lost. The page tries again by itself.");
    }
  });
  source.addEventListener("open", () => trouble(""));
}

async function goOn() {
  still = false;
  await refresh();
  connect();
}

async function edit(base) {
  if (panel) {
    if (base !== undefined) await panel.load(base);
    panel.stands(status, still);
    panel.show();
    return;
  }
  if (!still && status === "running") {
    await post(`${api}/pause`);
    refresh();
  }
  panel = await openPanel(byId("editing"), run, base, {
    async sent() {
      panel = null;
      tell("The run goes on.");
      await goOn();
      main.focus();
    },
    closed() {
      panel = null;
      main.querySelector("[data-act=edit]")?.focus();
    },
  });
  panel.stands(status, still);
}

async function act(button) {
  const { act: name, base } = button.dataset;
  button.disabled = true;
  try {
    if (name === "edit") {
      await edit(base);
    } else {
      await post(`${api}/${name}`);
      if (name === "resume") await goOn();
      else await refresh();
    }
    trouble("");
  } catch (error) {
    trouble(error.message);
    byId("trouble").scrollIntoView({ block: "nearest" });
  } finally {
    button.disabled = false;
  }
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    // Browsers give the clipboard to secure pages only: what is chosen is copied by the keyboard.
    getSelection().selectAllChildren(code);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = "Copy"; }, COPIED_MS);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) act(button);
  const command = event.target.closest("[data-copy]");
  if (command) copy(command);
  const tab = event.target.closest(".tablist label");
  if (tab) chosenTab = tab.htmlFor;
});
document.addEventListener("change", (event) => {
  if (event.target.name === "round") chosenTab = event.target.id;
});
// Another window may have gone on with the run.
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || !still) return;
  await refresh();
  if (!still) connect();
});
if (!still) connect();
