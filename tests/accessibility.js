// What is wrong with a page, a line each. Its value is that of one expression.
(() => {
  const faults = [];
  const short = (element) => element.outerHTML.replace(/\s+/g, " ").slice(0, 140);
  const fault = (rule, element, more = "") => faults.push(`${rule}: ${short(element)} ${more}`.trim());
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true,
    contentVisibilityAuto: true });
  const all = (selector) => [...document.querySelectorAll(selector)];
  const text = (element) => (element?.textContent ?? "").trim();

  if (!document.documentElement.lang) fault("no language", document.documentElement);
  if (!document.title.trim()) fault("no title", document.head);
  if (all("main").length !== 1) fault(`${all("main").length} main parts`, document.body);
  if (all("h1").filter(seen).length !== 1) fault(`${all("h1").length} first headings`, document.body);
  let before = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(seen)) {
    const level = Number(heading.nodeName[1]);
    if (before && level > before + 1) fault(`heading after one of level ${before}`, heading);
    before = level;
  }
  const ids = new Set();
  for (const element of all("[id]")) {
    if (ids.has(element.id)) fault("id given twice", element);
    ids.add(element.id);
  }
  for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const element of all(`[${name}]`).filter(seen)) {
      for (const id of element.getAttribute(name).split(/\s+/)) {
        if (!ids.has(id)) fault(`${name} names nothing`, element);
      }
    }
  }

  const named = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((id) => text(document.getElementById(id))).join(" ").trim();
    const label = element.getAttribute("aria-label")?.trim();
    if (label) return label;
    if (element.labels?.length) return [...element.labels].map(text).join(" ").trim();
    const shown = [...element.querySelectorAll("img[alt], svg[aria-label]")]
      .map((one) => one.getAttribute("alt") ?? one.getAttribute("aria-label")).join(" ");
    return `${text(element)} ${shown} ${element.title}`.trim();
  };
  for (const element of all("a[href], button, summary, select, textarea, input:not([type=hidden]), "
    + "[role=button], [role=group], [role=img], dialog, progress, nav, section[aria-labelledby]").filter(seen)) {
    if (!named(element)) fault("no name", element);
  }
  // Who speaks to the browser says the words that are seen: the name must hold them in their order.
  const said = (words) => words.toLowerCase().replace(/[^\p{L}\p{N}\s]/gu, "").replace(/\s+/g, " ").trim();
  const shown = (element) => {
    const hidden = [...element.querySelectorAll("[aria-hidden=true], .unseen, .hidden")].filter((one) => one.innerText);
    const displays = hidden.map((one) => one.style.display);
    for (const one of hidden) one.style.display = "none";
    const words = element.innerText ?? [...element.querySelectorAll("text")].map(text).join(" ");
    hidden.forEach((one, at) => { one.style.display = displays[at]; });
    return said(words);
  };
  for (const element of all("a, button, summary, [role=button], [role=link], [role=tab]")) {
    const label = element.getAttribute("aria-label") && said(element.getAttribute("aria-label"));
    if (label && seen(element) && !label.includes(shown(element))) fault("name without what is shown", element);
  }
  for (const picture of all("img")) if (!picture.hasAttribute("alt")) fault("no alternative text", picture);
  const focusable = "a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [tabindex]";
  for (const element of all(focusable)) {
    if (element.tabIndex >= 0 && seen(element) && element.closest("[aria-hidden=true]")) fault("focus in a hidden part", element);
    if (element.tabIndex > 0) fault("tabindex above 0", element);
  }
  for (const element of all("*").filter(seen)) {
    const style = getComputedStyle(element);
    const wide = /auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1;
    const high = /auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1;
    if ((wide || high) && element.tabIndex < 0 && ![...element.querySelectorAll(focusable)].some((one) => one.tabIndex >= 0)) {
      fault("scrolls and takes no focus", element);
    }
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (front, back, alpha = front[3]) => [0, 1, 2].map((i) => front[i] * alpha + back[i] * (1 - alpha));
  const light = (color) => {
    const [r, g, b] = color.map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // What is behind an element; none where a picture or a gradient is.
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none" || Number(style.opacity) < 1) return null;
      const color = rgba(style.backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((back, front) => over(front, back), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || judged.has(element)) continue;
    judged.add(element);
    if (!seen(element) || element.closest("svg, script, style, option, :disabled, #underlay, .hidden, .unseen, .skip")) continue;
    const back = behind(element);
    if (!back) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(over(rgba(style.color), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) fault(`contrast ${ratio.toFixed(2)}`, element);
  }
  return faults;
})()
