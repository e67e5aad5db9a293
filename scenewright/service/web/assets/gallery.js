// The gallery: times as the reader counts them, and cards that change while runs are at work.

const LOOK = 2500;
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

/** Bring the cards to what the service shows now; what has not changed is left alone. */
function take(fresh) {
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
          news.push(`${card.querySelector("h2").textContent.trim()}: ${card.querySelector(".tag").textContent}.`);
        }
        const focused = known.contains(document.activeElement);
        known.replaceWith(shown);
        if (focused) shown.querySelector("a").focus();
      }
    }
    if (cards.children[at] !== shown) cards.insertBefore(shown, cards.children[at] ?? null);
  });
  for (const card of [...cards.children]) {
    if (!stay.has(card.id) && !card.contains(document.activeElement)) card.remove();
  }
  if (news.length) document.getElementById("news").textContent = news.join(" ");
}

async function look() {
  if (!document.hidden && moving()) {
    try {
      const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (reply.ok) {
        const found = new DOMParser().parseFromString(await reply.text(), "text/html");
        const fresh = found.getElementById("cards");
        if (fresh) take(fresh);
        else location.reload();
      }
    } catch {
      // The service is away for a moment: the next look finds it again.
    }
  }
  setTimeout(look, LOOK);
}

tellTimes();
setInterval(tellTimes, 30000);
if (cards) setTimeout(look, LOOK);
