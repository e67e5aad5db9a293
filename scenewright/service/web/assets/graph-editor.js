// A scene graph that can be drawn and changed, by pointer, touch and keyboard.
//
//   const editor = createGraphEditor(element, scene, { onChange: (scene) => …, empty: "…" });
//   editor.scene          the SceneGraph as it stands
//   editor.load(scene)    show another one; onChange is not called
// ``empty`` is shown where there is no object; ``stateOf(fact)`` gives the verdict of a part of the
// scene, which colours it. ``editor.draw()`` shows changed verdicts.
//
// Beside the drawing stands a list of all objects and relations with buttons. The page loads
// style.css and site.css; the editor's own style comes by itself.

import { ObjectWindow, RelationWindow, h } from "./graph-dialogs.js";
import { GraphDrawing } from "./graph-drawing.js";
import { SceneModel, SceneProblem, counted, phrase, readObject } from "./graph-model.js";

let editors = 0;

export function createGraphEditor(element, scene, options = {}) {
  const style = new URL("./graph-editor.css", import.meta.url).pathname;
  if (!document.querySelector(`link[href="${style}"]`)) {
    document.head.append(h("link", { rel: "stylesheet", href: style }));
  }
  return new GraphEditor(element, scene, options);
}

class GraphEditor {
  constructor(element, scene, {
    onChange = () => {}, empty = "Nothing here yet. Name an object to begin.", stateOf = () => null,
  } = {}) {
    this.element = element;
    this.onChange = onChange;
    this.emptyText = empty;
    this.model = new SceneModel(scene);
    this.#build(stateOf);
    this.draw();
  }

  get scene() {
    return this.model.scene;
  }

  load(scene) {
    this.model.load(scene);
    this.draw();
  }

  undo() {
    if (this.model.undo()) this.#changed("Taken back.");
  }

  redo() {
    if (this.model.redo()) this.#changed("Done again.");
  }

  #build(stateOf) {
    const hint = `ge-hint-${(editors += 1)}`;
    this.empty = h("p", { class: "ge-empty" }, this.emptyText);
    this.stage = h("div", { class: "ge-stage" }, this.empty);
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
    this.relateTool = tool("Relate…", () => this.relate(this.drawing.selected ?? undefined));
    this.undoTool = tool("Undo", () => this.undo(), "Undo (Ctrl+Z)");
    this.redoTool = tool("Redo", () => this.redo(), "Redo (Ctrl+Shift+Z)");
    const arrange = tool("Arrange", () => this.drawing.arrange(), "Lay the drawing out anew");
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
    this.drawing = new GraphDrawing(this.stage, {
      open: (id) => this.edit(id),
      remove: (id) => this.remove(id),
      relate: (source, target) => this.relate(source, target),
      openRelation: (relation) => this.editRelation(relation),
      removeRelation: (relation) => this.removeRelation(relation),
    }, stateOf);
    this.drawing.canvas.setAttribute("aria-describedby", hint);
  }

  /** Show the model as it stands. */
  draw() {
    const { objects } = this.model;
    this.empty.hidden = objects.length > 0;
    this.drawing.draw(this.model);
    this.#list();
    this.undoTool.disabled = this.model.past.length === 0;
    this.redoTool.disabled = this.model.future.length === 0;
    this.relateTool.disabled = objects.length < 2;
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
        return () => this.drawing.focus(id);
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
    if (next) this.drawing.focus(next.id);
    else this.input.focus();
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
        return () => this.drawing.focusRelation(found);
      },
      onremove: old && (() => this.removeRelation(old)),
    });
  }

  removeRelation(relation) {
    const words = this.model.told(relation);
    this.model.removeRelation(relation);
    this.#changed(`Removed: ${words}.`);
    this.drawing.focus(relation.source);
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
    }, h("span", { "aria-hidden": "true" }, text));
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
