// A scene as the service's SceneGraph ({objects: [{id, name, attributes}], relations:
// [{source, predicate, target}]}) that can be changed and taken back.

export const PREDICATES = [
  "on", "under", "above", "below", "left of", "right of", "in front of", "behind", "next to",
  "near", "inside", "holding", "wearing", "riding", "looking at",
];
export const COLORS = {
  red: "#de3430", orange: "#ef8a22", yellow: "#f2c527", green: "#35a14b", blue: "#306cde",
  purple: "#9646be", pink: "#ec7fae", brown: "#8a5a34", black: "#2c2c33", white: "#ffffff",
  gray: "#8b9097", grey: "#8b9097", golden: "#d4a72c", silver: "#b9bec6", beige: "#dccfae",
  tan: "#c9a77a", turquoise: "#3cc7bd", violet: "#7d5be0", magenta: "#d6399f", cyan: "#2fb8d6",
  maroon: "#7d2231", navy: "#22346f", teal: "#158079", cream: "#f4ecd0",
};
export const SIZES = [
  "small", "little", "tiny", "big", "large", "huge", "giant", "tall", "short", "long", "thick",
  "thin", "wide", "narrow",
];
export const MATERIALS = [
  "wooden", "wood", "metal", "metallic", "plastic", "glass", "leather", "stone", "brick",
  "concrete", "paper", "ceramic", "fabric", "rubber", "steel", "marble", "cotton",
];
export const KEYS = ["color", "size", "material", "shape", "texture", "age", "state"];
const ORDER = ["size", "state", "age", "shape", "texture", "color", "material"];
const MAX_OBJECTS = 512;
const MAX_RELATIONS = 4096;
const MAX_NAME = 200;

const clean = (text) => String(text).normalize("NFC").replace(/\s+/gu, " ").trim();

/** The attribute key of an adjective: color, size or material; none of another word. */
export function keyOf(word) {
  const lower = word.toLowerCase();
  if (Object.hasOwn(COLORS, lower)) return "color";
  if (SIZES.includes(lower)) return "size";
  return MATERIALS.includes(lower) ? "material" : null;
}

/** "big red ball" as {name: "ball", attributes: {size: "big", color: "red"}}. */
export function readObject(text) {
  let words = clean(text).split(" ").filter(Boolean);
  if (words.length > 1 && ["a", "an", "the", "one", "another"].includes(words[0].toLowerCase())) {
    words = words.slice(1);
  }
  const attributes = {};
  while (words.length > 1) {
    const key = keyOf(words[0]);
    if (key === null || Object.hasOwn(attributes, key)) break;
    attributes[key] = words[0].toLowerCase();
    words = words.slice(1);
  }
  return { name: words.join(" "), attributes };
}

/** An object in words: its attributes before its name, in the order people say them. */
export function phrase(item) {
  const place = (key) => (ORDER.includes(key) ? ORDER.indexOf(key) : 1);
  const pairs = Object.entries(item.attributes).sort(([a], [b]) => place(a) - place(b));
  return [...pairs.map(([, value]) => value), item.name].join(" ");
}

/** "1 object", "2 objects", "No objects". */
export function counted(number, noun) {
  return number === 1 ? `1 ${noun}` : `${number || "No"} ${noun}s`;
}

export function relationKey(relation) {
  return JSON.stringify([relation.source, relation.predicate, relation.target]);
}

/** What cannot be; its message says how to mend it. */
export class SceneProblem extends Error {}

export class SceneModel {
  constructor(scene) {
    this.load(scene);
  }

  /** Take another scene; what was before cannot be brought back. */
  load(scene) {
    this.objects = (scene?.objects ?? []).map((item) => ({
      id: item.id, name: item.name, attributes: { ...item.attributes },
    }));
    this.relations = (scene?.relations ?? []).map(({ source, predicate, target }) => ({
      source, predicate, target,
    }));
    this.past = [];
    this.future = [];
  }

  get scene() {
    return structuredClone({ objects: this.objects, relations: this.relations });
  }

  object(id) {
    return this.objects.find((item) => item.id === id);
  }

  /** How an object is called where several have the same words. */
  label(id) {
    const words = phrase(this.object(id));
    const number = this.number(id);
    return number ? `${words} ${number}` : words;
  }

  /** Which of the objects of the same words it is, from 1; 0 where it is the only one. */
  number(id) {
    const item = this.object(id);
    const alike = this.objects.filter((other) => phrase(other) === phrase(item));
    return alike.length > 1 ? alike.indexOf(item) + 1 : 0;
  }

  /** A relation in words. */
  told({ source, predicate, target }) {
    return `${this.label(source)} ${predicate} ${this.label(target)}`;
  }

  relationsOf(id) {
    return this.relations.filter((r) => r.source === id || r.target === id);
  }

  addObject(name, attributes = {}) {
    const item = { id: "", name: this.#name(name, "the object"), attributes: this.#pairs(attributes) };
    if (this.objects.length >= MAX_OBJECTS) {
      throw new SceneProblem(`A scene has at most ${MAX_OBJECTS} objects: remove one first.`);
    }
    let number = 1;
    while (this.object(`${item.name}.${number}`)) number += 1;
    item.id = `${item.name}.${number}`;
    this.#note();
    this.objects.push(item);
    return item;
  }

  changeObject(id, name, attributes) {
    const found = { name: this.#name(name, "the object"), attributes: this.#pairs(attributes) };
    this.#note();
    Object.assign(this.object(id), found);
  }

  removeObject(id) {
    this.#note();
    this.objects = this.objects.filter((item) => item.id !== id);
    this.relations = this.relations.filter((r) => r.source !== id && r.target !== id);
  }

  /** Add a relation, or put it in the place of ``old``. */
  setRelation(relation, old = null) {
    const found = { ...relation, predicate: this.#name(relation.predicate, "the relation") };
    if (found.source === found.target) {
      throw new SceneProblem("An object cannot be related to itself: choose two objects.");
    }
    const place = old ? this.relations.findIndex((r) => relationKey(r) === relationKey(old)) : -1;
    const same = this.relations.findIndex((r) => relationKey(r) === relationKey(found));
    if (same >= 0 && same !== place) {
      throw new SceneProblem("This relation is there already: choose another word or object.");
    }
    if (place < 0 && this.relations.length >= MAX_RELATIONS) {
      throw new SceneProblem(`A scene has at most ${MAX_RELATIONS} relations: remove one first.`);
    }
    this.#note();
    if (place >= 0) this.relations[place] = found;
    else this.relations.push(found);
    return found;
  }

  removeRelation(relation) {
    this.#note();
    const key = relationKey(relation);
    this.relations = this.relations.filter((r) => relationKey(r) !== key);
  }

  undo() {
    return this.#travel(this.past, this.future);
  }

  redo() {
    return this.#travel(this.future, this.past);
  }

  #travel(from, to) {
    if (!from.length) return false;
    to.push(this.scene);
    const { objects, relations } = from.pop();
    this.objects = objects;
    this.relations = relations;
    return true;
  }

  #note() {
    this.past.push(this.scene);
    if (this.past.length > 100) this.past.shift();
    this.future = [];
  }

  #name(text, what) {
    const name = clean(text);
    if (!name) throw new SceneProblem(`Give ${what} a name.`);
    if (name.length > MAX_NAME) {
      throw new SceneProblem(`The name is over ${MAX_NAME} characters: shorten it.`);
    }
    return name;
  }

  #pairs(attributes) {
    const found = {};
    for (const [key, value] of Object.entries(attributes)) {
      if (clean(value)) found[this.#name(key, "the attribute")] = this.#name(value, "the attribute");
    }
    return found;
  }
}
