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
  // A dialog is closed by Escape and gives the focus back by itself.
  let box = null;
  const nameOf = (stem, address) => `${stem}.${address.startsWith("data:") ? "webp" : "png"}`;
  const enlarge = (button) => {
    const picture = button.querySelector("img");
    if (!picture) return;
    if (!box) {
      box = document.createElement("dialog");
      box.className = "lightbox";
      box.innerHTML = '<img><p class="actions"><a class="button">Download picture</a><button type="button" class="button">Close</button></p>';
      box.addEventListener("click", (event) => { if (!event.target.closest("a")) box.close(); });
      document.body.append(box);
    }
    const [shown, link] = [box.querySelector("img"), box.querySelector("a")];
    shown.src = link.href = picture.src;
    shown.alt = picture.alt;
    box.setAttribute("aria-label", picture.alt);
    link.download = nameOf(button.dataset.name, picture.src);
    box.showModal();
    box.querySelector("button").focus();
  };
  addEventListener("click", (event) => {
    const button = event.target.closest?.(".zoom");
    if (button) enlarge(button);
  });
  for (const link of document.querySelectorAll("a[data-download]")) {
    link.href = document.querySelector(".hero-shot img").src;
    link.download = nameOf(link.dataset.download, link.href);
    link.hidden = false;
  }
  addEventListener("scroll", () => { if (shown) show(shown.tip, shown.near); }, { passive: true, capture: true });
})();
