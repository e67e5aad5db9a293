(() => {
  // Times are taken by the page: a server cannot know when a picture was there to be seen.
  let began = performance.now();
  let busy = false;
  const ahead = new Map();
  const say = (text) => { document.getElementById("said").textContent = text; };
  const loadAhead = () => {
    const wanted = (document.querySelector("[data-preload]")?.dataset.preload || "").split(" ");
    ahead.clear();
    for (const address of wanted.filter(Boolean)) {
      const image = new Image();
      image.src = address;
      ahead.set(address, image);
    }
  };
  const settle = () => {
    const shown = [...document.querySelectorAll("main img")].map((i) => i.decode().catch(() => {}));
    began = performance.now();
    Promise.all(shown).then(() => { began = performance.now(); loadAhead(); });
    document.querySelector(".fact.current")?.scrollIntoView({ block: "nearest" });
  };
  const show = (text, address, push) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    document.title = page.title;
    for (const part of ["header", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
    if (push) history.pushState(null, "", address);
    // The new page is read out from its question on, and Tab goes on from there.
    (document.querySelector(".fact.current .statement") || document.getElementById("question"))?.focus({ preventScroll: true });
    if (document.querySelector(".fact.current") === null) scrollTo(0, 0);
    settle();
  };
  const go = async (address, body, push = true) => {
    if (busy) return;
    busy = true;
    document.querySelector("main").setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(address, body ? { method: "POST", body } : {});
      const text = await reply.text();
      if (reply.ok) {
        say("");
        show(text, reply.url, push);
      } else {
        const told = new DOMParser().parseFromString(text, "text/html").querySelector(".problem");
        say(told ? told.textContent : `The server refuses (${reply.status}). Reload the page.`);
      }
    } catch {
      say("The server does not answer. What you rated before is kept; your last answer may not be: give it again when the server is back.");
    } finally {
      busy = false;
      document.querySelector("main").removeAttribute("aria-busy");
    }
  };
  addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-live]") || !event.submitter) return;
    event.preventDefault();
    form.elements.seconds.value = ((performance.now() - began) / 1000).toFixed(3);
    go(form.action, new URLSearchParams(new FormData(form, event.submitter)));
  });
  addEventListener("click", (event) => {
    const link = event.target.closest?.("main a[href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.href);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.("input:not([type=checkbox]), textarea, select")) return;
    const key = event.key.toLowerCase();
    const near = document.querySelector(".fact.current");
    if (near && (key === "arrowup" || key === "arrowdown")) {
      const other = key === "arrowup" ? near.previousElementSibling : near.nextElementSibling;
      event.preventDefault();
      if (!event.repeat) other?.querySelector("a")?.click();
      return;
    }
    // A focused button or link is pressed by Enter itself.
    if (key === "enter" && event.target.closest?.("a, button") && !event.target.matches(".statement")) return;
    for (const found of document.querySelectorAll("[data-keys]")) {
      if (!found.dataset.keys.split(" ").includes(key)) continue;
      event.preventDefault();
      // A key that is held down answers once: the next task has not been looked at.
      if (!event.repeat) found.click();
      return;
    }
  });
  addEventListener("popstate", () => go(location.href, null, false));
  settle();
})();
