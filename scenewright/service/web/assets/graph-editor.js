// A scene graph that can be drawn and changed, by pointer, touch and keyboard.
//
//   const editor = createGraphEditor(element, scene, { onChange: (scene) => …, empty: "…" });
//   editor.scene          the SceneGraph as it stands
//   editor.load(scene)    show another one; onChange is not called
// ``empty`` is said where there is no object.
//
// Beside the drawing stands a list of all objects and relations with buttons. The page loads
// style.css and site.css; the editor's own style comes by itself.

import { ObjectWindow, RelationWindow, h } from "./graph-dialogs.js";
import { SceneModel, SceneProblem, phrase, readObject, relationKey } from "./graph-model.js";
import { layOut, route } from "./graph-layout.js";
import { card, counted, fill, keep, s, set, shorten, textWidth } from "./graph-plate.js";

let editors = 0;

export function createGraphEditor(element, scene, options = {}) {
  const style = new URL("./graph-editor.css", import.meta.url).pathname;
  if (!document.querySelector(`link[href="${style}"]`)) {
    document.head.append(h("link", { rel: "stylesheet", href: style }));
  }
  return new GraphEditor(element, scene, options);
}

class GraphEditor {
  constructor(element, scene, { onChange = () => {}, empty = "Nothing here yet. Name an object to begin." } = {}) {
    this.element = element;
    this.onChange = onChange;
    this.emptyText = empty;
    this.model = new SceneModel(scene);
    this.places = new Map();
    this.moved = new Set();
    this.nodes = new Map();
    this.edges = new Map();
    this.selected = null;
    this.#build();
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.stage);
  }

  get scene() {
    return this.model.scene;
  }

  load(scene) {
    this.model.load(scene);
    this.moved = new Set([...this.moved].filter((id) => this.model.object(id)));
    this.draw();
  }

  undo() {
    if (this.model.undo()) this.#changed("Taken back.");
  }

  redo() {
    if (this.model.redo()) this.#changed("Done again.");
  }

  #build() {
    const hint = `ge-hint-${(editors += 1)}`;
    this.lines = s("g", { "aria-hidden": "true" });
    this.plates = s("g");
    this.labels = s("g");
    this.rubber = s("path", { class: "ge-rubber", visibility: "hidden" });
    this.svg = s("svg", { class: "graph ge-svg", role: "group", "aria-describedby": hint },
      this.lines, this.plates, this.labels, this.rubber);
    this.empty = h("p", { class: "ge-empty" }, this.emptyText);
    this.stage = h("div", { class: "ge-stage" }, this.svg, this.empty);
    this.input = h("input", {
      class: "input", maxLength: 200, autocomplete: "off", placeholder: "red ball",
      "aria-label": "New object", enterKeyHint: "done",
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.isComposing) {
          event.preventDefault();
          this.#add();
        }
        event.stopPropagation();
      },
    });
    for (const name of ["input", "change"]) {
      this.input.addEventListener(name, (event) => event.stopPropagation());
    }
    const tool = (text, onclick, label) => h("button", {
      type: "button", class: "button", onclick, ...(label ? { title: label } : {}),
    }, text);
    this.relateTool = tool("Relate…", () => this.relate(this.selected ?? undefined));
    this.undoTool = tool("Undo", () => this.undo(), "Undo (Ctrl+Z)");
    this.redoTool = tool("Redo", () => this.redo(), "Redo (Ctrl+Shift+Z)");
    const arrange = tool("Arrange", () => {
      this.moved.clear();
      this.draw();
    }, "Lay the drawing out anew");
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.objectList = h("ul", { class: "ge-list" });
    this.relationList = h("ul", { class: "ge-list" });
    this.counts = [h("h3"), h("h3")];
    this.told = h("p", { class: "unseen", role: "status" });
    this.element.classList.add("ge");
    this.element.replaceChildren(
      h("div", { class: "ge-tools" },
        h("div", { class: "ge-add" }, this.input, tool("Add object", () => this.#add())),
        this.relateTool, h("span", { class: "ge-gap" }), this.undoTool, this.redoTool, arrange),
      this.problem,
      h("div", { class: "ge-body" }, this.stage,
        h("div", { class: "ge-side" }, this.counts[0], this.objectList, this.counts[1],
          this.relationList)),
      h("p", { class: "ge-help small muted", id: hint },
        "Drag an object to move it, drag its round handle onto another object to relate the two, ",
        "open either with a double click. By keyboard: Enter opens, the arrow keys move, R relates, ",
        "Delete removes, Ctrl+Z takes back."),
      this.told);
    this.objectWindow = new ObjectWindow(this.element);
    this.relationWindow = new RelationWindow(this.element);
    this.element.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
      event.preventDefault();
      if (event.shiftKey) this.redo();
      else this.undo();
    });
    this.stage.addEventListener("pointerdown", (event) => {
      if (event.target === this.svg || event.target === this.stage) this.#select(null);
    });
  }

  /** Everything anew from the model; elements that stay keep their focus. */
  draw() {
    const { objects, relations } = this.model;
    const width = Math.max(280, this.stage.clientWidth - 2);
    this.cards = new Map(objects.map((item) => [item.id, card(item)]));
    const fresh = layOut(this.cards, relations, width);
    for (const [id, at] of fresh) {
      if (!this.moved.has(id) || !this.places.has(id)) this.places.set(id, at);
    }
    for (const id of this.places.keys()) if (!this.cards.has(id)) this.places.delete(id);
    if (this.selected && !this.cards.has(this.selected)) this.selected = null;
    this.empty.hidden = objects.length > 0;
    set(this.svg, { "aria-label": `Scene graph: ${counted(objects.length, "object")}, ${counted(relations.length, "relation")}` });
    keep(this.nodes, objects.map((item) => item.id), (id) => this.#node(id), this.plates);
    for (const item of objects) fill(this.nodes.get(item.id), item, this.cards.get(item.id), this.model);
    keep(this.edges, relations.map(relationKey), (key) => this.#edge(key), this.labels);
    this.#place(width);
    this.#list();
    this.undoTool.disabled = this.model.past.length === 0;
    this.redoTool.disabled = this.model.future.length === 0;
    this.relateTool.disabled = objects.length < 2;
  }

  /** Put everything where it belongs; no more than that, so that dragging stays smooth. */
  #place(width = Math.max(280, this.stage.clientWidth - 2)) {
    const boxes = new Map();
    let height = 0;
    for (const [id, { width: wide, height: high }] of this.cards) {
      const at = this.places.get(id);
      at.x = Math.min(Math.max(at.x, wide / 2 + 4), Math.max(wide / 2 + 4, width - wide / 2 - 12));
      at.y = Math.max(at.y, high / 2 + 4);
      boxes.set(id, { ...at, width: wide, height: high });
      height = Math.max(height, at.y + high / 2 + 18);
      const node = this.nodes.get(id);
      set(node, { transform: `translate(${at.x - wide / 2} ${at.y - high / 2})` });
      node.classList.toggle("on", id === this.selected);
    }
    set(this.svg, { width, height: Math.max(height, 120), viewBox: `0 0 ${width} ${Math.max(height, 120)}` });
    const { relations } = this.model;
    const sizes = relations.map((r) => ({ width: textWidth(shorten(r.predicate), "12px") + 20, height: 24 }));
    const wires = route(relations, boxes, sizes, width);
    this.lines.replaceChildren(...wires.flatMap(({ d, head }) => [
      s("path", { class: "line", d }), s("path", { class: "head", d: head }),
    ]));
    relations.forEach((relation, at) => {
      const { label } = wires[at];
      const edge = this.edges.get(relationKey(relation));
      set(edge, {
        transform: `translate(${label.x - label.width / 2} ${label.y - label.height / 2})`,
        "aria-label": this.model.told(relation),
      });
      set(edge.firstChild, { width: label.width });
    });
  }

  #node(id) {
    const node = s("g", { class: "node ge-node", tabindex: "0", role: "button" });
    node.dataset.id = id;
    node.addEventListener("focus", () => this.#select(id));
    node.addEventListener("dblclick", () => this.edit(id));
    node.addEventListener("keydown", (event) => this.#nodeKey(event, id));
    node.addEventListener("pointerdown", (event) => this.#grab(event, id));
    return node;
  }

  #edge(key) {
    const [source, predicate, target] = JSON.parse(key);
    const relation = { source, predicate, target };
    const edge = s("g", { class: "edge ge-edge", tabindex: "0", role: "button" },
      s("rect", { class: "pill", height: 24, rx: 12 }), s("text", { class: "small", x: 10, y: 16 }));
    edge.lastChild.textContent = shorten(predicate);
    edge.addEventListener("dblclick", () => this.editRelation(relation));
    edge.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") this.editRelation(relation);
      else if (event.key === "Delete" || event.key === "Backspace") this.removeRelation(relation);
      else return;
      event.preventDefault();
    });
    return edge;
  }

  #nodeKey(event, id) {
    const step = event.shiftKey ? 40 : 10;
    const ways = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) this.#shift(id, ...ways[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.edit(id);
    else if (event.key === "Delete" || event.key === "Backspace") this.remove(id);
    else if (event.key.toLowerCase() === "r") this.relate(id);
    else return;
    event.preventDefault();
  }

  #shift(id, dx, dy) {
    const at = this.places.get(id);
    at.x += dx;
    at.y += dy;
    this.moved.add(id);
    this.#place();
  }

  #grab(event, id) {
    if (event.button !== 0) return;
    const connecting = event.target.closest(".ge-handle") !== null;
    const node = this.nodes.get(id);
    const start = this.#spot(event);
    const from = { ...this.places.get(id) };
    node.setPointerCapture(event.pointerId);
    const aim = (moved) => {
      const under = document.elementFromPoint(moved.clientX, moved.clientY)?.closest?.(".ge-node");
      return under && this.plates.contains(under) && under !== node ? under : null;
    };
    const mark = (target) => {
      for (const other of this.nodes.values()) other.classList.toggle("aimed", other === target);
    };
    const move = (moved) => {
      const at = this.#spot(moved);
      if (connecting) {
        mark(aim(moved));
        set(this.rubber, { d: `M${from.x} ${from.y}L${at.x} ${at.y}`, visibility: "visible" });
        return;
      }
      if (Math.hypot(at.x - start.x, at.y - start.y) < 3 && !this.dragging) return;
      this.dragging = true;
      const place = this.places.get(id);
      place.x = from.x + at.x - start.x;
      place.y = from.y + at.y - start.y;
      this.moved.add(id);
      this.#place();
    };
    const done = (last) => {
      for (const [name, heard] of [["pointermove", move], ["pointerup", done], ["pointercancel", done]]) {
        node.removeEventListener(name, heard);
      }
      this.dragging = false;
      mark(null);
      set(this.rubber, { visibility: "hidden" });
      const target = connecting && last.type === "pointerup" ? aim(last) : null;
      if (target) this.relate(id, target.dataset.id);
    };
    node.addEventListener("pointermove", move);
    node.addEventListener("pointerup", done);
    node.addEventListener("pointercancel", done);
  }

  #spot(event) {
    const box = this.svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #select(id) {
    this.selected = id;
    for (const [other, node] of this.nodes) node.classList.toggle("on", other === id);
  }

  #add() {
    const { name, attributes } = readObject(this.input.value);
    this.#attempt(() => {
      const item = this.model.addObject(name, attributes);
      this.input.value = "";
      this.#changed(`${phrase(item)} added.`);
      this.input.focus();
    });
  }

  /** Ask for an object's name and attributes. */
  edit(id) {
    this.objectWindow.ask({
      title: `Change ${this.model.label(id)}`,
      item: this.model.object(id),
      onsave: ({ name, attributes }) => {
        this.model.changeObject(id, name, attributes);
        this.#changed(`${this.model.label(id)} changed.`);
        return () => this.nodes.get(id)?.focus();
      },
      onremove: () => this.remove(id),
    });
  }

  remove(id) {
    const words = this.model.label(id);
    const at = this.model.objects.findIndex((item) => item.id === id);
    this.model.removeObject(id);
    this.#changed(`${words} removed.`);
    const next = this.model.objects[Math.min(at, this.model.objects.length - 1)];
    (next ? this.nodes.get(next.id) : this.input).focus();
  }

  /** Ask for a relation between two objects. */
  relate(source, target) {
    const ids = this.model.objects.map((item) => item.id);
    if (ids.length < 2) return;
    const from = source ?? ids[0];
    this.#askRelation("New relation", {
      source: from, predicate: "", target: target ?? ids.find((id) => id !== from),
    }, null);
  }

  editRelation(relation) {
    this.#askRelation("Change the relation", relation, relation);
  }

  #askRelation(title, relation, old) {
    this.relationWindow.ask({
      title,
      relation,
      ends: this.model.objects.map((item) => [item.id, this.model.label(item.id)]),
      onsave: (given) => {
        const found = this.model.setRelation(given, old);
        this.#changed(`${this.model.told(found)}.`);
        return () => this.edges.get(relationKey(found))?.focus();
      },
      onremove: old && (() => this.removeRelation(old)),
    });
  }

  removeRelation(relation) {
    const words = this.model.told(relation);
    this.model.removeRelation(relation);
    this.#changed(`Removed: ${words}.`);
    this.nodes.get(relation.source)?.focus();
  }

  #attempt(change) {
    try {
      this.problem.hidden = true;
      change();
    } catch (error) {
      if (!(error instanceof SceneProblem)) throw error;
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
  }

  #changed(words) {
    this.problem.hidden = true;
    this.draw();
    this.told.textContent = words;
    this.onChange(this.scene);
  }

  #list() {
    const { objects, relations } = this.model;
    const act = (text, label, onclick) => h("button", {
      type: "button", class: "ge-icon", "aria-label": label, title: label, onclick,
    }, text);
    this.counts[0].textContent = counted(objects.length, "object");
    this.counts[1].textContent = counted(relations.length, "relation");
    this.objectList.replaceChildren(...objects.map((item) => {
      const words = this.model.label(item.id);
      return h("li", {},
        h("button", { type: "button", class: "ge-open", "aria-label": `Change ${words}`, onclick: () => this.edit(item.id) }, words),
        act("→", `Relate ${words}`, () => this.relate(item.id)),
        act("×", `Remove ${words}`, () => this.remove(item.id)));
    }));
    this.relationList.replaceChildren(...relations.map((relation) => {
      const words = this.model.told(relation);
      return h("li", {},
        h("button", { type: "button", class: "ge-open", "aria-label": `Change ${words}`, onclick: () => this.editRelation(relation) },
          `${this.model.label(relation.source)} `, h("b", {}, relation.predicate), ` ${this.model.label(relation.target)}`),
        act("×", `Remove ${words}`, () => this.removeRelation(relation)));
    }));
  }
}
