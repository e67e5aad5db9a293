// The two small windows of the graph editor: one object, one relation. Everything in them can be
// done by keyboard; Escape leaves them.

import { COLORS, KEYS, PREDICATES, SceneProblem } from "./graph-model.js";

/** An element with properties (``on…`` are listeners, ``class`` and ``data-…`` attributes). */
export function h(tag, properties = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (name in found && name !== "list") found[name] = value;
    else if (value !== null && value !== false) found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

let numbers = 0;

function field(label, input, ...more) {
  input.id ||= `ge-${(numbers += 1)}`;
  return h("div", { class: "field" }, h("label", { htmlFor: input.id }, label), input, ...more);
}

function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: `button ${kind}`, onclick }, text);
}

class Window {
  constructor(host) {
    this.title = h("h3", { id: `ge-${(numbers += 1)}` });
    this.body = h("div", { class: "ge-fields" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.remove = button("Delete", () => this.close(this.onremove), "quiet danger");
    this.save = button("Save", () => this.#save(), "main-action");
    this.dialog = h("dialog", { class: "ge-dialog card", "aria-labelledby": this.title.id },
      this.title, this.body, this.problem,
      h("div", { class: "actions" },
        this.save, button("Cancel", () => this.close(), "quiet"), this.remove));
    this.remove.classList.add("push");
    this.dialog.addEventListener("keydown", (event) => {
      // The editor may stand in a form: Enter is meant for this window, not for the form.
      if (event.key === "Enter" && event.target instanceof HTMLInputElement) {
        event.preventDefault();
        this.#save();
      }
      event.stopPropagation();
    });
    this.dialog.addEventListener("change", (event) => event.stopPropagation());
    this.dialog.addEventListener("input", (event) => event.stopPropagation());
    this.dialog.addEventListener("pointerdown", (event) => {
      if (event.target === this.dialog) this.close();
    });
    host.append(this.dialog);
  }

  open(title, read, onsave, onremove) {
    this.title.textContent = title;
    this.read = read;
    this.onsave = onsave;
    this.onremove = onremove;
    this.remove.hidden = !onremove;
    this.problem.hidden = true;
    this.before = document.activeElement;
    this.dialog.showModal();
  }

  close(then = null) {
    this.dialog.close();
    if (this.before?.isConnected) this.before.focus();
    then?.();
  }

  #save() {
    try {
      const then = this.onsave(this.read());
      this.close(then);
    } catch (error) {
      if (!(error instanceof SceneProblem)) throw error;
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
  }
}

export class ObjectWindow extends Window {
  constructor(host) {
    super(host);
    this.name = h("input", { class: "input", maxLength: 200, autocomplete: "off" });
    this.rows = h("div", { class: "ge-rows" });
    this.values = h("datalist", { id: `ge-${(numbers += 1)}` },
      ...Object.keys(COLORS).map((value) => h("option", { value })));
    this.keys = h("datalist", { id: `ge-${(numbers += 1)}` },
      ...KEYS.map((value) => h("option", { value })));
    this.swatches = h("div", { class: "ge-swatches", role: "group", "aria-label": "Colours" },
      ...["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"]
        .map((color) => h("button", {
          type: "button", class: "ge-swatch", title: color, "aria-label": color,
          style: `background:${COLORS[color]}`,
          onclick: () => { this.colorInput().value = color; },
        })));
    this.body.append(
      field("Object", this.name),
      h("div", { class: "field" }, h("span", { class: "label" }, "Attributes"), this.rows,
        this.swatches, button("Another attribute", () => this.row("", "").focus(), "small-button")),
      this.values, this.keys);
  }

  ask({ title, item, onsave, onremove }) {
    this.name.value = item.name;
    this.rows.replaceChildren();
    const pairs = Object.entries(item.attributes);
    for (const [key, value] of pairs) this.row(key, value);
    if (!Object.hasOwn(item.attributes, "color")) this.row("color", "");
    this.open(title, () => this.given(), onsave, onremove);
    this.name.focus();
    this.name.select();
  }

  row(key, value) {
    const name = h("input", {
      class: "input ge-key", value: key, maxLength: 200, autocomplete: "off",
      "aria-label": "Kind of attribute", placeholder: "kind", list: this.keys.id,
    });
    const what = h("input", {
      class: "input ge-value", value, maxLength: 200, autocomplete: "off",
      "aria-label": key || "Attribute", placeholder: key === "color" ? "any" : "as in: wooden",
      list: key === "color" ? this.values.id : null,
    });
    const line = h("div", { class: "ge-row" }, name, what,
      h("button", {
        type: "button", class: "ge-icon", "aria-label": "Remove this attribute", title: "Remove",
        onclick: () => { line.remove(); this.name.focus(); },
      }, h("span", { "aria-hidden": "true" }, "×")));
    this.rows.append(line);
    return key ? what : name;
  }

  colorInput() {
    for (const line of this.rows.children) {
      if (line.querySelector(".ge-key").value.trim() === "color") return line.querySelector(".ge-value");
    }
    return this.row("color", "");
  }

  given() {
    const attributes = {};
    for (const line of this.rows.children) {
      const key = line.querySelector(".ge-key").value.trim();
      const value = line.querySelector(".ge-value").value.trim();
      if (!value) continue;
      if (!key) throw new SceneProblem(`Say what kind of attribute “${value}” is, for example size.`);
      if (Object.hasOwn(attributes, key)) {
        throw new SceneProblem(`The attribute “${key}” is there twice: keep one.`);
      }
      attributes[key] = value;
    }
    return { name: this.name.value, attributes };
  }
}

export class RelationWindow extends Window {
  constructor(host) {
    super(host);
    this.source = h("select", { class: "input" });
    this.target = h("select", { class: "input" });
    this.known = h("datalist", { id: `ge-${(numbers += 1)}` },
      ...PREDICATES.map((value) => h("option", { value })));
    this.predicate = h("input", {
      class: "input", maxLength: 200, autocomplete: "off", placeholder: "choose below or type",
      list: this.known.id,
    });
    this.common = h("div", { class: "ge-chips", role: "group", "aria-label": "Common relations" },
      ...PREDICATES.map((word) => h("button", {
        type: "button", class: "ge-chip",
        onclick: () => { this.predicate.value = word; this.mark(); this.save.focus(); },
      }, word)));
    this.predicate.addEventListener("input", () => this.mark());
    this.body.append(
      field("From", this.source),
      field("Relation", this.predicate, this.common),
      field("To", this.target),
      button("Swap the two", () => {
        [this.source.value, this.target.value] = [this.target.value, this.source.value];
      }, "small-button"),
      this.known);
  }

  mark() {
    for (const chip of this.common.children) {
      chip.setAttribute("aria-pressed", String(chip.textContent === this.predicate.value.trim()));
    }
  }

  /** ``ends``: [id, words] of the objects. */
  ask({ title, relation, ends, onsave, onremove }) {
    for (const select of [this.source, this.target]) {
      select.replaceChildren(...ends.map(([value, text]) => h("option", { value }, text)));
    }
    this.source.value = relation.source;
    this.target.value = relation.target;
    this.predicate.value = relation.predicate;
    this.mark();
    this.open(title, () => ({
      source: this.source.value, predicate: this.predicate.value, target: this.target.value,
    }), onsave, onremove);
    this.predicate.focus();
  }
}
