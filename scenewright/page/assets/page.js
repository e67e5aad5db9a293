(() => {
  const root = document.documentElement;
  root.classList.add("js");
  let shown = null;
  const hide = () => {
    if (shown) shown.tip.classList.remove("on");
    shown = null;
  };
  const show = (tip, near) => {
    hide();
    shown = { tip, near };
    tip.classList.add("on");
    const box = near.getBoundingClientRect();
    const width = tip.offsetWidth, height = tip.offsetHeight, edge = 8;
    const left = Math.min(Math.max(edge, box.left + box.width / 2 - width / 2), root.clientWidth - width - edge);
    const below = box.bottom + edge;
    const top = below + height < innerHeight ? below : Math.max(edge, box.top - height - edge);
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };
  const bind = (near, tip) => {
    if (!tip) return;
    for (const on of ["mouseenter", "focus"]) near.addEventListener(on, () => show(tip, near));
    near.addEventListener("mouseleave", () => { if (document.activeElement !== near) hide(); });
    near.addEventListener("blur", hide);
  };
  for (const cell of document.querySelectorAll(".cell")) {
    cell.removeAttribute("title");
    bind(cell, cell.querySelector(".tip"));
  }
  for (const part of document.querySelectorAll("[data-tip]")) {
    const tip = document.getElementById(part.dataset.tip);
    if (!tip) continue;
    part.querySelector("title")?.remove();
    bind(part, tip);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", () => { if (shown) show(shown.tip, shown.near); }, { passive: true, capture: true });
})();
