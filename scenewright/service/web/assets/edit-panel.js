import { freshKey, post, text } from "/static/service.js";

const MEANINGS = {
  yes: "holds", no: "does not hold", void: "not asked, an object it needs is absent",
  unscored: "not judged", pending: "will be judged",
};
const KEPT_FIELDS = ["add", "rounds", "note"];

class Panel {
  constructor(place, run, told) {
    this.place = place;
    this.run = run;
    this.told = told;
    this.still = false;
    this.sending = false;
  }

  async load(base) {
    const before = this.form && new FormData(this.form);
    const scene = this.editor && this.changed ? this.editor.scene : null;
    const query = base === undefined ? "" : `?base=${encodeURIComponent(base)}`;
    const html = await text(`/runs/${this.run}/edit${query}`);
    const parsed = new DOMParser().parseFromString(html, "text/html").querySelector("form");
    this.form = document.importNode(parsed, true);
    this.place.replaceChildren(this.form);
    this.place.hidden = false;
    this.key = freshKey();
    this.facts = JSON.parse(this.form.dataset.facts);
    this.editor = null;
    this.opening = null;
    this.changed = false;
    if (before) {
      for (const name of KEPT_FIELDS) this.form.elements[name].value = before.get(name);
    }
    this.listen();
    this.paint();
    if (scene) {
      this.form.dataset.scene = JSON.stringify(scene);
      this.form.querySelector("#edit-scene").open = true;
      await this.openEditor();
      this.changed = true;
    }
  }

  listen() {
    const { form } = this;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    form.addEventListener("change", (event) => {
      if (event.target.name === "base") this.load(event.target.value).then(() => this.ready());
      else this.paint();
    });
    form.querySelector("[data-edit=close]").addEventListener("click", () => this.close());
    for (const part of form.querySelectorAll("#edit-drawing [data-fact]")) {
      if (!part.hasAttribute("tabindex")) continue;
      part.setAttribute("role", "button");
      // Its title names it, and follows the verdict.
      part.removeAttribute("aria-label");
    }
    const drawing = form.querySelector("#edit-drawing");
    drawing.addEventListener("click", (event) => this.press(event));
    drawing.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.press(event);
    });
    form.querySelector("#edit-scene").addEventListener("toggle", (event) => {
      if (event.target.open) this.openEditor();
    });
  }

  openEditor() {
    this.opening ??= this.loadEditor();
    return this.opening;
  }

  async loadEditor() {
    const place = this.form.querySelector("#edit-editor");
    try {
      const { createGraphEditor } = await import("/static/graph-editor.js");
      this.editor = createGraphEditor(place, JSON.parse(this.form.dataset.scene), {
        onChange: () => { this.changed = true; },
        stateOf: (part) => this.stateOf(part),
      });
    } catch {
      place.textContent = "The graph editor could not be loaded: add facts below instead.";
    }
  }

  choice(fact) {
    return this.radios(fact).value;
  }

  radios(fact) {
    return this.form.elements[`f${fact.id}`];
  }

  // What the person sees: their own word, else the panel's, as far as its objects are there.
  states() {
    const found = new Map();
    // What holds needs its objects, which then are there as well.
    const there = new Set(this.facts.filter((fact) => this.choice(fact) === "yes")
      .flatMap((fact) => fact.parents));
    for (const fact of this.facts) {
      const lacking = fact.parents.some((parent) => ["no", "void"].includes(found.get(parent)));
      const judged = fact.state === "void" ? "pending" : fact.state;
      const seen = this.choice(fact) || (there.has(fact.id) ? "yes" : judged);
      found.set(fact.id, lacking ? "void" : seen);
    }
    return found;
  }

  // The verdict of a part of the graph: one that was added here has none yet.
  stateOf(part) {
    const fact = this.facts.find((one) => Object.entries(part).every(([key, value]) => one[key] === value));
    const state = fact && this.states().get(fact.id);
    return state === "pending" ? null : state;
  }

  paint() {
    const states = this.states();
    this.editor?.draw();
    for (const part of this.form.querySelectorAll("#edit-drawing [data-fact]")) {
      const state = states.get(part.dataset.fact);
      part.setAttribute("class", part.getAttribute("class").replace(/s-\w+/, `s-${state}`));
      const fact = this.facts.find((one) => one.id === part.dataset.fact);
      part.querySelector("use")?.setAttribute("href", `#i-${state === fact.state ? fact.look : state}`);
      part.classList.toggle("changed", this.choice(fact) !== "");
      const title = part.querySelector("title");
      if (title) title.textContent = `${fact.statement}: ${MEANINGS[state]}`;
    }
    const missing = this.facts.filter((fact) => states.get(fact.id) === "no"
      || (states.get(fact.id) === "void" && fact.kind === "relation"));
    this.form.querySelector("#edit-missing").textContent = missing.length
      ? `Missing, as you see it: ${missing.map((fact) => fact.statement).join("; ")}.`
      : "Nothing is missing, as you see it.";
  }

  press(event) {
    const part = event.target.closest("[data-fact]");
    const fact = part && this.facts.find((one) => one.id === part.dataset.fact);
    if (!fact) return;
    const opposite = fact.state === "yes" ? "no" : "yes";
    this.radios(fact).value = this.choice(fact) === "" ? opposite : "";
    this.paint();
  }

  // Corrections of what the scene still asks for.
  verdicts(scene) {
    const given = {};
    for (const fact of this.facts) {
      const said = this.choice(fact);
      if (said && (!scene || asked(scene, fact))) given[fact.id] = said;
    }
    return given;
  }

  async send() {
    if (this.sending) return;
    const fields = this.form.elements;
    const scene = this.editor && this.changed ? this.editor.scene : null;
    const verdicts = this.verdicts(scene);
    const add = fields.add.value.trim();
    const body = {
      // Named, since the kept round may be another one by the time the edit arrives.
      base: Number(fields.base.value),
      verdicts,
      scene,
      add: add || null,
      rounds: Number(fields.rounds.value),
      note: fields.note.value.trim(),
      idempotency_key: this.key,
    };
    this.sending = true;
    this.ready();
    const problem = this.form.querySelector("#edit-problem");
    problem.hidden = true;
    try {
      await post(`/v1/refinements/${this.run}/edits`, body);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      // What was refused may be sent again changed: it is another edit then.
      this.key = freshKey();
      return;
    } finally {
      this.sending = false;
      this.ready();
    }
    this.empty();
    await this.told.sent();
  }

  show() {
    this.place.querySelector("#h-editing").focus({ preventScroll: true });
    this.place.scrollIntoView({ block: "start" });
  }

  empty() {
    this.place.hidden = true;
    this.place.replaceChildren();
  }

  close() {
    this.empty();
    this.told.closed();
  }

  // Told where the run stands: an edit is taken once it stands still.
  stands(status, still) {
    this.still = still;
    this.ready();
  }

  ready() {
    if (!this.form?.isConnected) return;
    this.form.querySelector("#edit-send").disabled = !this.still || this.sending;
    this.form.querySelector("#edit-wait").textContent = this.still
      ? "" : "The run pauses before its next round; then you can go on.";
  }
}

function asked(scene, fact) {
  if (fact.kind === "text" || fact.kind === "wish") return true;
  // How many there are to be is another fact once objects come or go.
  if (fact.kind === "count") return false;
  const object = scene.objects.find((one) => one.id === fact.subject);
  if (fact.kind === "relation") {
    return scene.relations.some((one) => one.source === fact.subject
      && one.predicate === fact.predicate && one.target === fact.target);
  }
  if (!object) return false;
  return ["object", "realism"].includes(fact.kind) || object.attributes?.[fact.key] === fact.value;
}

export async function openPanel(place, run, base, told) {
  const panel = new Panel(place, run, told);
  await panel.load(base);
  panel.show();
  return panel;
}
