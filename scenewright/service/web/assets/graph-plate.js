// The parts of the drawn graph: plates with attribute chips, and small helpers of SVG.

import { COLORS } from "./graph-model.js";

const PAD = 10;
const NAME_ROW = 20;
const CHIP = 21;
const SHORT = 24;
const measure = document.createElement("canvas").getContext("2d");

export const shorten = (text) => (text.length > SHORT ? `${text.slice(0, SHORT - 1)}…` : text);

export function textWidth(text, font) {
  measure.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return measure.measureText(text).width;
}

export function s(tag, attributes = {}, ...children) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(found, attributes);
  found.append(...children);
  return found;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

export function counted(number, noun) {
  return number === 1 ? `1 ${noun}` : `${number || "No"} ${noun}s`;
}

/** Make ``map`` hold exactly ``keys``, in order, as children of ``parent``. */
export function keep(map, keys, make, parent) {
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

/** How large an object's plate is and where its attributes stand in it. */
export function card(item) {
  const name = textWidth(shorten(item.name), "640 14px");
  const chips = Object.entries(item.attributes).map(([key, value]) => {
    const color = key === "color" ? COLORS[value] : undefined;
    return { text: shorten(value), color, width: textWidth(shorten(value), "12px") + (color ? 30 : 16) };
  });
  const inner = Math.max(name + 8, 44, ...chips.map((chip) => chip.width),
    Math.min(150, chips.reduce((sum, chip) => sum + chip.width + 5, -5)));
  let x = 0;
  let y = NAME_ROW + 3;
  for (const chip of chips) {
    if (x > 0 && x + chip.width > inner + 0.5) {
      x = 0;
      y += CHIP + 4;
    }
    Object.assign(chip, { x: x + PAD, y: y + PAD });
    x += chip.width + 5;
  }
  const high = chips.length ? y + CHIP : NAME_ROW - 2;
  return { width: inner + 2 * PAD, height: high + 2 * PAD, chips };
}

export function fill(node, item, { width, height, chips }, model) {
  const related = model.relationsOf(item.id).length;
  set(node, { "aria-label": `${model.label(item.id)}, ${counted(related, "relation").toLowerCase()}` });
  const name = s("text", { class: "name", x: PAD, y: PAD + 14 });
  name.textContent = shorten(item.name);
  node.replaceChildren(
    s("rect", { class: "plate", width, height, rx: 10 }), name,
    ...chips.flatMap((chip) => {
      const text = s("text", { class: "small", x: chip.x + (chip.color ? 21 : 8), y: chip.y + 15 });
      text.textContent = chip.text;
      return [
        s("rect", { class: "pill", x: chip.x, y: chip.y, width: chip.width, height: CHIP, rx: CHIP / 2 }),
        ...(chip.color ? [s("circle", { class: "ge-dot", cx: chip.x + 11, cy: chip.y + CHIP / 2, r: 6, fill: chip.color })] : []),
        text,
      ];
    }),
    s("g", { class: "ge-handle", transform: `translate(${width} ${height / 2})` },
      s("circle", { class: "ge-reach", r: 16 }), s("circle", { class: "ge-knob", r: 6 })));
}
