// Makes a part of the page equal to a fresh one and keeps the elements that are the same, so that
// focus, scrolling, open details and what is typed stay. Elements are the same by their id, their
// data-key or the heading that names them; others by their place and kind.

const keyOf = (node) => node.nodeType === 1
  ? node.id || node.getAttribute("data-key") || node.getAttribute("aria-labelledby") || null
  : null;
const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
const AHEAD = 3;

function kept(element, name) {
  if (name === "open") return element.nodeName === "DETAILS";
  // The page's own script shows and places tips.
  return element.classList.contains("tip") && (name === "class" || name === "style");
}

function sameAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !kept(old, name)) old.setAttribute(name, value);
  }
}

function ahead(at, want) {
  for (let node = at, step = 0; node && step < AHEAD; node = node.nextSibling, step += 1) {
    if (keyOf(node) === null && alike(node, want)) return node;
  }
  return null;
}

function sameChildren(old, fresh) {
  const known = new Map();
  for (const child of old.childNodes) if (keyOf(child) !== null) known.set(keyOf(child), child);
  const wanted = new Set([...fresh.childNodes].map(keyOf).filter((key) => key !== null));
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const key = keyOf(want);
    let found = key === null ? ahead(at, want) : known.get(key) ?? null;
    if (found && !alike(found, want)) found = null;
    if (!found) {
      old.insertBefore(document.importNode(want, true), at);
      continue;
    }
    // What stands before it and is wanted no longer goes, so that it need not be moved.
    while (at && at !== found && !wanted.has(keyOf(at))) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    if (at !== found) old.insertBefore(found, at);
    morph(found, want);
    at = found.nextSibling;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function morph(old, fresh) {
  if (!alike(old, fresh)) {
    old.replaceWith(document.importNode(fresh, true));
  } else if (old.nodeType !== 1) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (!old.hasAttribute("data-keep")) {
    sameAttributes(old, fresh);
    sameChildren(old, fresh);
  }
}
