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
  // The page may change under the pointer, so the document listens for all its cells and drawings.
  const at = (event) => (event.target.closest ? event.target.closest(".cell, [data-tip]") : null);
  const tipOf = (near) => near.querySelector(".tip") || document.getElementById(near.dataset.tip || "");
  const open = (event) => {
    const near = at(event);
    const tip = near && tipOf(near);
    if (!tip) return;
    near.removeAttribute("title");
    near.querySelector("title")?.remove();
    if (shown?.near !== near) show(tip, near);
  };
  addEventListener("mouseover", open);
  addEventListener("focusin", open);
  addEventListener("mouseout", (event) => {
    const near = at(event);
    if (near && !near.contains(event.relatedTarget) && document.activeElement !== near) hide();
  });
  addEventListener("focusout", hide);
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", () => { if (shown) show(shown.tip, shown.near); }, { passive: true, capture: true });
})();
