// Where objects and arrows of a scene graph go: layers from source to target, ordered by
// barycentres (after Sugiyama, Tagawa and Toda, 1981). All sizes in pixels, places are centres.

const GAP_X = 36;
const GAP_Y = 76;
const MARGIN = 18;
const BENDS = [0, 34, -34, 70, -70, 120, -120];
const STOPS = [0.5, 0.43, 0.57, 0.36, 0.64, 0.28, 0.72, 0.2, 0.8];
const SAMPLES = 16;
const MANY = 4000;

/** Places by id, all within ``width``. ``sizes``: id → {width, height}; ``edges``: relations. */
export function layOut(sizes, edges, width) {
  const places = new Map();
  let left = MARGIN;
  let top = MARGIN;
  let deep = 0;
  for (const ids of components(sizes, edges)) {
    const own = edges.filter((edge) => ids.includes(edge.source));
    const piece = placed(ids, sizes, own, width - 2 * MARGIN);
    if (left > MARGIN && left + piece.width > width - MARGIN) {
      left = MARGIN;
      top += deep + GAP_X;
      deep = 0;
    }
    for (const [id, at] of piece.places) places.set(id, { x: left + at.x, y: top + at.y });
    left += piece.width + GAP_X;
    deep = Math.max(deep, piece.height);
  }
  // Pieces are set from the left: move each line of them to the middle.
  const right = Math.max(0, ...[...places].map(([id, at]) => at.x + sizes.get(id).width / 2));
  const shift = Math.max(0, (width - MARGIN - right) / 2);
  for (const at of places.values()) at.x += shift;
  return places;
}

function components(sizes, edges) {
  const near = new Map([...sizes.keys()].map((id) => [id, []]));
  for (const { source, target } of edges) {
    near.get(source).push(target);
    near.get(target).push(source);
  }
  const seen = new Set();
  const found = [];
  for (const id of sizes.keys()) {
    if (seen.has(id)) continue;
    const reached = [id];
    seen.add(id);
    for (const next of reached) {
      for (const other of near.get(next)) {
        if (!seen.has(other)) {
          seen.add(other);
          reached.push(other);
        }
      }
    }
    const inside = new Set(reached);
    found.push([...sizes.keys()].filter((other) => inside.has(other)));
  }
  return found;
}

function placed(ids, sizes, edges, room) {
  let rows = rowsOf(ids, edges);
  const near = new Map(ids.map((id) => [id, []]));
  for (const { source, target } of edges) {
    near.get(source).push(target);
    near.get(target).push(source);
  }
  const x = new Map();
  rows = rows.flatMap((row) => split(row, sizes, room));
  for (const row of rows) spread(row, sizes, x, () => 0);
  for (let sweep = 0; sweep < 6; sweep += 1) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wish = (id) => {
        const others = near.get(id);
        return others.length ? others.reduce((sum, o) => sum + x.get(o), 0) / others.length : x.get(id);
      };
      const wished = new Map(row.map((id) => [id, wish(id)]));
      row.sort((a, b) => wished.get(a) - wished.get(b));
      spread(row, sizes, x, (id) => wished.get(id));
    }
  }
  let least = Infinity;
  let most = -Infinity;
  for (const id of ids) {
    least = Math.min(least, x.get(id) - sizes.get(id).width / 2);
    most = Math.max(most, x.get(id) + sizes.get(id).width / 2);
  }
  const squeeze = most - least > room ? room / (most - least) : 1;
  const places = new Map();
  let y = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((id) => sizes.get(id).height));
    for (const id of row) places.set(id, { x: (x.get(id) - least) * squeeze, y: y + height / 2 });
    y += height + GAP_Y;
  }
  return { places, width: (most - least) * squeeze, height: y - GAP_Y };
}

/** Ids by layer: a target stands below its source, circles are opened where they close. */
function rowsOf(ids, edges) {
  const out = new Map(ids.map((id) => [id, []]));
  for (const { source, target } of edges) out.get(source).push(target);
  const depth = new Map();
  const open = new Set();
  const below = (id) => {
    if (depth.has(id)) return depth.get(id);
    open.add(id);
    let deepest = 0;
    for (const next of out.get(id)) {
      if (!open.has(next)) deepest = Math.max(deepest, below(next) + 1);
    }
    open.delete(id);
    depth.set(id, deepest);
    return deepest;
  };
  ids.forEach(below);
  const rows = [];
  for (const id of ids) (rows[depth.get(id)] ??= []).push(id);
  return rows.filter(Boolean).reverse();
}

function split(row, sizes, room) {
  const parts = [[]];
  let used = 0;
  for (const id of row) {
    const width = sizes.get(id).width + GAP_X;
    if (parts.at(-1).length && used + width > room + GAP_X) {
      parts.push([]);
      used = 0;
    }
    parts.at(-1).push(id);
    used += width;
  }
  return parts;
}

/** Give a row places near what each wishes for, in order and without overlap. */
function spread(row, sizes, x, wish) {
  let end = -Infinity;
  let drift = 0;
  for (const id of row) {
    const half = sizes.get(id).width / 2;
    const at = Math.max(wish(id), end + half);
    x.set(id, at);
    drift += at - wish(id);
    end = at + half + GAP_X;
  }
  for (const id of row) x.set(id, x.get(id) - drift / row.length);
}

/** Curves and label places of ``edges`` between ``boxes`` (id → {x, y, width, height}), within
 * ``width``. */
export function route(edges, boxes, labels, width) {
  const used = new Map();
  const plates = [...boxes];
  const many = edges.length * plates.length > MANY;
  const curves = edges.map((edge) => {
    const pair = [edge.source, edge.target].sort().join("\u0000");
    const taken = used.get(pair) ?? [];
    const turn = edge.source < edge.target ? 1 : -1;
    const others = many ? [] : plates.filter(([id]) => id !== edge.source && id !== edge.target);
    let best = null;
    for (const bend of BENDS) {
      const curve = curveOf(boxes.get(edge.source), boxes.get(edge.target), bend * turn);
      let cost = Math.abs(bend) / 40 + (taken.includes(bend) ? 100 : 0);
      for (let i = 1; i < SAMPLES && !many; i += 1) {
        const at = point(curve, i / SAMPLES);
        if (at.x < 8 || at.x > width - 8 || at.y < 8) cost += 8;
        cost += 3 * others.filter(([, box]) => covers(box, at, 6)).length;
      }
      if (!best || cost < best.cost) best = { cost, bend, curve };
    }
    used.set(pair, [...taken, best.bend]);
    return best.curve;
  });
  const set = [];
  return edges.map((edge, at) => {
    const curve = clipped(curves[at], boxes.get(edge.source), boxes.get(edge.target));
    let best = null;
    for (const t of STOPS) {
      const spot = { ...point(curve, t), ...labels[at] };
      const half = spot.width / 2 + 3;
      spot.x = Math.max(half, Math.min(spot.x, width - half));
      const walls = many ? set : [...set, ...plates.map(([, box]) => box)];
      const cost = walls.reduce((sum, box) => sum + overlap(spot, box), 0) + Math.abs(t - 0.5);
      if (!best || cost < best.cost) best = { cost, spot };
    }
    set.push(best.spot);
    return { d: drawn(curve), head: head(curve), label: best.spot };
  });
}

function curveOf(from, to, bend) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const middle = {
    x: (from.x + to.x) / 2 - (dy / length) * bend * 2,
    y: (from.y + to.y) / 2 + (dx / length) * bend * 2,
  };
  return [from, middle, to].map(({ x, y }) => ({ x, y }));
}

function point([a, b, c], t) {
  const s = 1 - t;
  return {
    x: s * s * a.x + 2 * s * t * b.x + t * t * c.x,
    y: s * s * a.y + 2 * s * t * b.y + t * t * c.y,
  };
}

function covers(box, at, slack) {
  return Math.abs(at.x - box.x) < box.width / 2 + slack
    && Math.abs(at.y - box.y) < box.height / 2 + slack;
}

function overlap(a, b) {
  const wide = (a.width + b.width) / 2 + 4 - Math.abs(a.x - b.x);
  const high = (a.height + b.height) / 2 + 4 - Math.abs(a.y - b.y);
  return wide > 0 && high > 0 ? wide * high : 0;
}

/** The part of the curve between the two boxes. */
function clipped(curve, from, to) {
  let begin = 0;
  let end = 1;
  for (let i = 0; i <= 64; i += 1) if (covers(from, point(curve, i / 64), 1)) begin = i / 64;
  for (let i = 64; i >= 0; i -= 1) if (covers(to, point(curve, i / 64), 2)) end = i / 64;
  if (end <= begin) return curve;
  const [a, b, c] = curve;
  const blend = (p, q, t) => ({ x: p.x + (q.x - p.x) * t, y: p.y + (q.y - p.y) * t });
  const control = blend(blend(a, b, begin), blend(b, c, begin), end);
  return [point(curve, begin), control, point(curve, end)];
}

const round = (value) => Math.round(value * 10) / 10;

function drawn([a, b, c]) {
  return `M${round(a.x)} ${round(a.y)}Q${round(b.x)} ${round(b.y)} ${round(c.x)} ${round(c.y)}`;
}

function head([, b, c]) {
  const length = Math.hypot(c.x - b.x, c.y - b.y) || 1;
  const dx = (c.x - b.x) / length;
  const dy = (c.y - b.y) / length;
  const left = `${round(c.x - 9 * dx - 4.5 * dy)} ${round(c.y - 9 * dy + 4.5 * dx)}`;
  const right = `${round(c.x - 9 * dx + 4.5 * dy)} ${round(c.y - 9 * dy - 4.5 * dx)}`;
  return `M${round(c.x)} ${round(c.y)}L${left}L${right}Z`;
}
