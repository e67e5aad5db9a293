// Lays the second picture over the first and lets a slider, or the pointer, say where they meet.
(() => {
  const stage = document.getElementById("compare");
  const cut = document.getElementById("cut");
  const form = document.getElementById("compare-form");
  const [first, second] = ["choose-a", "choose-b"].map((id) => document.getElementById(id).value);
  document.documentElement.classList.add("sliding");
  const show = () => {
    const share = Number(cut.value);
    stage.style.setProperty("--cut", `${share}%`);
    cut.setAttribute("aria-valuetext", `${share} percent round ${first}, ${100 - share} percent round ${second}`);
  };
  const follow = (event) => {
    const box = stage.getBoundingClientRect();
    cut.value = Math.round((100 * (event.clientX - box.left)) / box.width);
    show();
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    stage.setPointerCapture(event.pointerId);
    follow(event);
  });
  stage.addEventListener("pointermove", (event) => {
    if (stage.hasPointerCapture(event.pointerId)) follow(event);
  });
  cut.addEventListener("input", show);
  form.addEventListener("change", () => form.requestSubmit());
  form.querySelector("button").hidden = true;
  show();
})();
