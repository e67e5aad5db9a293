// The gallery: times as the reader counts them, and cards that follow the runs, new ones included.

const LOOK = 2500;
const REST = 6000;
const MOVING = new Set(["queued", "running"]);
const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });

function tellTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    const seconds = (when - Date.now()) / 1000;
    const unit = units.find(([, size]) => Math.abs(seconds) >= size);
    time.textContent = unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "just now";
    time.title = when.toLocaleString();
  }
}

const cards = document.getElementById("cards");
const moving = () => [...(cards?.children ?? [])].some((card) => MOVING.has(card.dataset.status));
const titleOf = (card) => card.querySelector("h2").textContent.trim();

/** The first card that is wholly seen, and how far below the window's top it is. */
function place() {
  if (scrollY < 1) return null;
  const card = [...cards.children].find((one) => one.getBoundingClientRect().top >= 0);
  return card ? { card, top: card.getBoundingClientRect().top } : null;
}

/** Bring the cards to what the service shows now; what has not changed is left alone. */
function take(fresh) {
  const held = place();
  const wanted = [...fresh.children];
  const stay = new Set(wanted.map((card) => card.id));
  const news = [];
  wanted.forEach((card, at) => {
    const known = document.getElementById(card.id);
    let shown = known;
    if (!known || known.dataset.state !== card.dataset.state) {
      shown = document.importNode(card, true);
      tellTimes(shown);
      if (known) {
        if (known.dataset.status !== card.dataset.status) {
          news.push(`${titleOf(card)}: ${card.querySelector(".tag").textContent}.`);
        }
        const focused = known.contains(document.activeElement);
        if (held?.card === known) held.card = shown;
        known.replaceWith(shown);
        if (focused) shown.querySelector("h2 a")?.focus({ preventScroll: true });
      } else {
        news.push(`New run: ${titleOf(card)}.`);
      }
    }
    if (cards.children[at] !== shown) cards.insertBefore(shown, cards.children[at] ?? null);
  });
  for (const card of [...cards.children]) {
    if (!stay.has(card.id) && !card.contains(document.activeElement)) card.remove();
  }
  // Who reads further down goes on reading the same card.
  if (held?.card.isConnected) {
    scrollBy({ top: held.card.getBoundingClientRect().top - held.top, behavior: "instant" });
  }
  if (news.length) document.getElementById("news").textContent = news.join(" ");
}

async function look() {
  try {
    const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (reply.ok) {
      const found = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = found.getElementById("cards");
      if (fresh && cards) take(fresh);
      else if ((fresh || cards) && document.activeElement?.nodeName !== "INPUT") location.reload();
    }
  } catch {
    // The service is away for a moment: the next look finds it again.
  }
}

// New runs come to the first page; others change while runs on them are at work.
const follows = () => moving() || !cards?.dataset.before;
let waiting = null;
function wait() {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (!document.hidden && follows()) await look();
    wait();
  }, moving() ? LOOK : REST);
}

tellTimes();
setInterval(() => tellTimes(), 30000);
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || !follows()) return;
  await look();
  wait();
});
wait();
