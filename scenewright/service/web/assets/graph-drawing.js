// The drawing of a scene graph. Cytoscape.js lays out, drags and draws relations on its canvas;
// objects are elements of the page above it, which keyboards and screen readers reach.

import cytoscape from "./cytoscape.js";
import { COLORS, counted, relationKey } from "./graph-model.js";
import { h } from "./graph-dialogs.js";

const GAP = 36;
const MARGIN = 24;
const ROW_GAP = 84;
const SPREAD = 1.6;
const LEAST_HEIGHT = 250;
const STATES = {
  yes: ["--yes", "solid", "holds"], no: ["--no", "dashed", "does not hold"],
  void: ["--void", "dotted", "not asked"], unscored: ["--unscored", "dashed", "not judged"],
};
const nodeId = (id) => `o${id}`;
const edgeId = (relation) => `r${relationKey(relation)}`;

/** ``on``: what keys and pointers ask for: ``open``, ``remove`` and ``relate`` of objects,
 * ``openRelation`` and ``removeRelation``. ``stateOf(fact)``: the verdict of a part, if any. */
export class GraphDrawing {
  constructor(stage, on, stateOf) {
    this.stage = stage;
    this.on = on;
    this.stateOf = stateOf;
    this.nodes = new Map();
    this.edges = new Map();
    this.moved = new Set();
    this.selected = null;
    this.objects = h("div");
    this.relations = h("div");
    this.layer = h("div", { class: "ge-layer" }, this.objects, this.relations);
    this.canvas = h("div", { class: "ge-canvas", role: "group" }, this.layer);
    stage.prepend(this.canvas);
    this.cy = cytoscape({
      container: this.canvas, style: styles(stage), userZoomingEnabled: false,
      userPanningEnabled: false, boxSelectionEnabled: false, autounselectify: true,
    });
    this.#listen();
  }

  #listen() {
    const { cy } = this;
    const id = (event) => event.target.data("object");
    cy.on("position", "node", (event) => this.#place(event.target));
    cy.on("render", () => this.#placeRelations());
    cy.on("tapstart", "node", (event) => this.select(id(event)));
    cy.on("tap", "node", (event) => this.focus(id(event)));
    cy.on("tap", "edge", (event) => this.focusRelation(event.target.data("relation")));
    cy.on("tap", (event) => { if (event.target === cy) this.select(null); });
    cy.on("dbltap", "node", (event) => this.on.open(id(event)));
    cy.on("dbltap", "edge", (event) => this.on.openRelation(event.target.data("relation")));
    cy.on("dragfree", "node", (event) => this.#moved(event.target));
    cy.on("mouseover", "edge", () => this.canvas.classList.add("over-edge"));
    cy.on("mouseout", "edge", () => this.canvas.classList.remove("over-edge"));
    // Cytoscape keeps the canvas's place in the window, which changes with the page above it.
    for (const kind of ["pointerenter", "pointerdown"]) this.canvas.addEventListener(kind, () => cy.resize(), true);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles(this.stage)));
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === this.width) return;
      this.width = contentRect.width;
      if (this.model) this.draw(this.model);
    }).observe(this.stage);
  }

  /** Show ``model``; what was moved by hand stays where it is, as do elements with the focus. */
  draw(model) {
    this.model = model;
    const { objects, relations } = model;
    this.moved = new Set([...this.moved].filter((id) => model.object(id)));
    if (!model.object(this.selected)) this.selected = null;
    this.canvas.setAttribute("aria-label", `Scene graph: ${counted(objects.length, "object")}, ${counted(relations.length, "relation")}`);
    keep(this.nodes, objects.map((item) => item.id), (id) => this.#node(id), this.objects);
    keep(this.edges, relations.map(relationKey), (key) => this.#edge(key), this.relations);
    for (const item of objects) this.#fill(this.nodes.get(item.id), item);
    const wanted = new Map([...objects.map((item) => this.#nodeData(item)),
      ...relations.map((relation) => this.#edgeData(relation))].map((one) => [one.data.id, one]));
    this.cy.batch(() => {
      this.cy.remove(this.cy.elements().filter((found) => !wanted.has(found.id())));
      for (const [id, one] of wanted) {
        const found = this.cy.getElementById(id);
        if (found.empty()) this.cy.add(one);
        else found.data(one.data).classes(one.classes);
      }
    });
    this.#layOut();
  }

  /** Lay everything out anew, what was moved by hand too. */
  arrange() {
    this.moved.clear();
    this.#layOut();
  }

  focus(id) {
    this.nodes.get(id)?.focus({ preventScroll: true });
  }

  focusRelation(relation) {
    this.edges.get(relationKey(relation))?.focus({ preventScroll: true });
  }

  select(id) {
    this.selected = id ?? null;
    for (const [other, node] of this.nodes) node.classList.toggle("on", other === id);
  }

  #nodeData(item) {
    const { offsetWidth, offsetHeight } = this.nodes.get(item.id);
    return { group: "nodes", classes: "", data: { id: nodeId(item.id), object: item.id, w: offsetWidth || 80, h: offsetHeight || 40 } };
  }

  #edgeData(relation) {
    const { source, predicate, target } = relation;
    const element = this.edges.get(relationKey(relation));
    const state = this.stateOf({ kind: "relation", subject: source, predicate, target });
    element.setAttribute("aria-label", told(this.model.told(relation), state));
    element.textContent = predicate;
    element.className = `ge-edge${mark(state)}`;
    return { group: "edges", classes: state ?? "", data: {
      id: edgeId(relation), source: nodeId(source), target: nodeId(target), predicate, relation,
    } };
  }

  // Each connected part in layers from source to target, the parts side by side in lines.
  #layOut() {
    const { cy } = this;
    const held = [...this.moved].map((id) => [cy.getElementById(nodeId(id)), { ...cy.getElementById(nodeId(id)).position() }]);
    const room = Math.max(280, this.stage.clientWidth) - 2 * MARGIN;
    const lines = [{ parts: [], width: 0, height: 0 }];
    this.quiet = true;
    for (const part of cy.elements().components()) {
      const box = layered(part);
      if (lines.at(-1).width > 0 && lines.at(-1).width + GAP + box.w > room) lines.push({ parts: [], width: 0, height: 0 });
      const line = lines.at(-1);
      if (line.width > 0) line.width += GAP;
      line.parts.push({ part, box, left: line.width });
      line.width += box.w;
      line.height = Math.max(line.height, box.h);
    }
    const widest = Math.max(room, ...lines.map((line) => line.width));
    let top = MARGIN;
    for (const { parts, width, height } of lines) {
      const start = MARGIN + (widest - width) / 2;
      for (const { part, box, left } of parts) part.nodes().shift({ x: start + left - box.x1, y: top - box.y1 });
      top += height + GAP;
    }
    for (const [node, position] of held) node.position(position);
    this.quiet = false;
    const zoom = room / widest;
    cy.viewport({ zoom, pan: { x: 0, y: 0 } });
    this.layer.style.transform = `scale(${zoom})`;
    this.#grow();
    cy.nodes().forEach((node) => this.#place(node));
    this.select(this.selected);
  }

  #grow() {
    const { cy } = this;
    const bottom = cy.nodes().empty() ? 0 : (cy.nodes().boundingBox().y2 + MARGIN) * cy.zoom();
    this.canvas.style.height = `${Math.round(Math.max(LEAST_HEIGHT, bottom))}px`;
    cy.resize();
  }

  #place(node) {
    const element = this.nodes.get(node.data("object"));
    if (this.quiet || !element) return;
    const { x, y } = node.position();
    element.style.transform = `translate(${x}px, ${y}px) translate(-50%, -50%)`;
  }

  // Names of relations stand above their lines; the canvas has the same text for the pointer only.
  #placeRelations() {
    this.cy.edges().forEach((edge) => {
      const element = edge.data("relation") && this.edges.get(relationKey(edge.data("relation")));
      if (!element) return;
      const { x, y } = edge.midpoint();
      element.style.transform = `translate(${x}px, ${y}px) translate(-50%, -50%)`;
    });
  }

  #moved(node) {
    const { x, y } = node.position();
    const [w, h] = [node.data("w") / 2 + 4, node.data("h") / 2 + 4];
    const right = this.stage.clientWidth / this.cy.zoom() - w;
    this.moved.add(node.data("object"));
    node.position({ x: Math.max(w, Math.min(x, right)), y: Math.max(h, y) });
    this.#grow();
  }

  #node(id) {
    const knob = h("span", { class: "ge-handle", "aria-hidden": "true" }, h("span", { class: "ge-knob" }));
    const node = h("div", { class: "ge-node", tabIndex: 0, role: "button", "data-id": id,
      onfocus: () => this.select(id),
      onkeydown: (event) => this.#nodeKey(event, id) }, h("div", { class: "plate" }), knob);
    knob.addEventListener("pointerdown", (event) => this.#pull(event, id));
    for (const kind of ["mousedown", "touchstart"]) knob.addEventListener(kind, (event) => event.stopPropagation());
    return node;
  }

  #fill(node, item) {
    const { id, name, attributes } = item;
    const state = this.stateOf({ kind: "object", subject: id });
    const related = counted(this.model.relationsOf(id).length, "relation").toLowerCase();
    // Who speaks to the browser says what is seen, in the order in which it is seen.
    const number = this.model.number(id);
    const seen = [name, ...Object.values(attributes), ...(number ? [`number ${number}`] : [])];
    node.setAttribute("aria-label", told([...seen, related].join(", "), state));
    const chips = Object.entries(attributes).flatMap(([key, value]) => {
      const found = this.stateOf({ kind: "attribute", subject: id, key, value });
      const dot = key === "color" && COLORS[value];
      return [" ", h("span", { class: `ge-attribute${mark(found)}`, title: told(`${key}: ${value}`, found) },
        ...(dot ? [h("span", { class: "ge-dot", style: `background:${dot}` })] : []), value)];
    });
    node.firstChild.className = `plate${mark(state)}`;
    node.firstChild.replaceChildren(h("span", { class: "ge-name" }, name),
      ...(chips.length ? [h("span", { class: "ge-attributes" }, ...chips)] : []));
  }

  #edge(key) {
    const [source, predicate, target] = JSON.parse(key);
    const relation = { source, predicate, target };
    return h("div", { class: "ge-edge", tabIndex: 0, role: "button",
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") this.on.openRelation(relation);
        else if (event.key === "Delete" || event.key === "Backspace") this.on.removeRelation(relation);
        else return;
        event.preventDefault();
      } });
  }

  #nodeKey(event, id) {
    const step = event.shiftKey ? 40 : 10;
    const ways = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) {
      const [x, y] = ways[event.key];
      const node = this.cy.getElementById(nodeId(id));
      node.shift({ x, y });
      this.#moved(node);
    } else if (event.key === "Enter" || event.key === " ") this.on.open(id);
    else if (event.key === "Delete" || event.key === "Backspace") this.on.remove(id);
    else if (event.key.toLowerCase() === "r") this.on.relate(id);
    else return;
    event.preventDefault();
  }

  /** Draw a relation from an object's handle: a line follows the pointer to another object. */
  #pull(event, id) {
    if (event.button !== 0) return;
    event.preventDefault();
    event.stopPropagation();
    const { cy } = this;
    const handle = event.currentTarget;
    const spot = ({ clientX, clientY }) => {
      const box = this.canvas.getBoundingClientRect();
      return { x: (clientX - box.left) / cy.zoom(), y: (clientY - box.top) / cy.zoom() };
    };
    const aim = (at) => cy.nodes("[object]").filter((node) => {
      const { x, y } = node.position();
      return node.data("object") !== id && Math.abs(at.x - x) < node.data("w") / 2 && Math.abs(at.y - y) < node.data("h") / 2;
    }).last().data("object");
    const rubber = cy.add([
      { group: "nodes", data: { id: "pointer", w: 1, h: 1 }, position: spot(event), classes: "pointer" },
      { group: "edges", data: { id: "rubber", source: nodeId(id), target: "pointer" }, classes: "rubber" },
    ]);
    let target;
    const move = (moved) => {
      rubber.nodes().position(spot(moved));
      target = aim(spot(moved));
      for (const [other, node] of this.nodes) node.classList.toggle("aimed", other === target);
    };
    const done = (last) => {
      for (const kind of ["pointermove", "pointerup", "pointercancel"]) handle.removeEventListener(kind, kind === "pointermove" ? move : done);
      cy.remove(rubber);
      for (const node of this.nodes.values()) node.classList.remove("aimed");
      if (last.type === "pointerup" && target !== undefined) this.on.relate(id, target);
    };
    handle.setPointerCapture(event.pointerId);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", done);
    handle.addEventListener("pointercancel", done);
    this.select(id);
  }
}

const mark = (state) => (state ? ` s-${state}` : "");
const told = (words, state) => (STATES[state] ? `${words}: ${STATES[state][2]}` : words);

/** Lay a connected part out in layers; gives its box. */
function layered(part) {
  const nodes = part.nodes();
  const roots = nodes.roots().nonempty() ? nodes.roots() : nodes.first();
  const wide = Math.max(...nodes.map((node) => node.data("w")));
  const high = Math.max(...nodes.map((node) => node.data("h")));
  // The layout keeps its rows as far apart as the widest object is: they need their height only.
  const squeeze = (high + ROW_GAP) / Math.max(wide, high) / SPREAD;
  part.layout({
    name: "breadthfirst", directed: true, roots, fit: false, padding: 0, spacingFactor: SPREAD,
    boundingBox: { x1: 0, y1: 0, w: 1, h: 1 }, transform: (node, { x, y }) => ({ x, y: y * squeeze }),
  }).run();
  return nodes.boundingBox({ includeLabels: false, includeOverlays: false });
}

function styles(element) {
  const found = getComputedStyle(element);
  const color = (name) => found.getPropertyValue(name).trim();
  const edge = (name) => ({ "line-color": color(name), "target-arrow-color": color(name) });
  return [
    { selector: "core", style: { "active-bg-opacity": 0 } },
    { selector: "node", style: {
      shape: "round-rectangle", width: "data(w)", height: "data(h)", "background-opacity": 0, "overlay-opacity": 0,
    } },
    { selector: "edge", style: {
      ...edge("--muted"), "curve-style": "bezier", "control-point-step-size": 60, width: 1.8,
      "target-arrow-shape": "triangle", "target-distance-from-node": 2, "overlay-opacity": 0,
      label: "data(predicate)", "font-family": found.fontFamily, "font-size": 12,
      "text-opacity": 0, "text-background-padding": 8, "text-events": "yes",
      "text-wrap": "ellipsis", "text-max-width": 170,
    } },
    ...Object.entries(STATES).map(([state, [name, line]]) => ({
      selector: `edge.${state}`, style: { ...edge(name), "line-style": line, width: 2.2 },
    })),
    { selector: ".pointer", style: { events: "no" } },
    { selector: ".rubber", style: {
      ...edge("--accent"), "curve-style": "straight", "line-style": "dashed", width: 2.5,
      "target-arrow-shape": "none", label: "", events: "no",
    } },
  ];
}

/** Make ``map`` hold exactly ``keys``, in order, as children of ``parent``. */
function keep(map, keys, make, parent) {
  const wanted = new Set(keys);
  for (const [key, element] of map) {
    if (!wanted.has(key)) {
      element.remove();
      map.delete(key);
    }
  }
  keys.forEach((key, at) => {
    if (!map.has(key)) map.set(key, make(key));
    const element = map.get(key);
    if (parent.children[at] !== element) parent.insertBefore(element, parent.children[at] ?? null);
  });
}
