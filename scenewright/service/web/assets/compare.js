// Shows the two pictures side by side, or one over the other with a slider, or the pointer, that says where they meet.
(() => {
  const stage = document.getElementById("compare");
  const cut = document.getElementById("cut");
  const form = document.getElementById("compare-form");
  const views = document.querySelector(".compare-views");
  const [beside, over] = ["side-by-side", "one-over-the-other"].map((id) => document.getElementById(id));
  const [first, second] = [...stage.children].map((figure) => figure.dataset.name);
  const sliding = () => document.documentElement.classList.contains("sliding");
  const slide = (on) => {
    document.documentElement.classList.toggle("sliding", on);
    beside.setAttribute("aria-pressed", String(!on));
    over.setAttribute("aria-pressed", String(on));
  };
  const show = () => {
    const share = Number(cut.value);
    stage.style.setProperty("--cut", `${share}%`);
    cut.setAttribute("aria-valuetext", `${share} percent ${first}, ${100 - share} percent ${second}`);
  };
  const follow = (event) => {
    const box = stage.getBoundingClientRect();
    cut.value = Math.round((100 * (event.clientX - box.left)) / box.width);
    show();
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !sliding()) return;
    stage.setPointerCapture(event.pointerId);
    follow(event);
  });
  stage.addEventListener("pointermove", (event) => {
    if (stage.hasPointerCapture(event.pointerId)) follow(event);
  });
  cut.addEventListener("input", show);
  beside.addEventListener("click", () => slide(false));
  over.addEventListener("click", () => slide(true));
  form.addEventListener("change", () => form.requestSubmit());
  form.querySelector("button").hidden = true;
  views.hidden = false;
  // Two pictures side by side are too small on a phone.
  slide(matchMedia("(max-width: 700px)").matches);
  show();
})();
