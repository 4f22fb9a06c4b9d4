// The page: what is followed, which of it is shown, and the theme.

import { follow, get } from "./api.js";
import { colour, el, prepared, replace, setText, tint } from "./dom.js";
import { count, times } from "./format.js";
import { QueryPage } from "./query.js";
import { ConsumerGroup, FleetPage } from "./surroundings.js";

const main = document.getElementById("main");
const side = document.getElementById("side");
const pages = new Map();
let overview = null;
let shown = null;

// The token has become a cookie: it need not stay in the address, nor in the history.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

function places() {
  if (!overview) return [];
  return [
    ...overview.queries.map((one) => `query-${one.id}`),
    ...overview.consumers.map((one) => `group-${one.id}`),
    ...(overview.fleet ? ["fleet"] : []),
  ];
}

function chosen() {
  const known = places();
  const wanted = location.hash.slice(1);
  return known.includes(wanted) ? wanted : known[0];
}

function pageOf(place) {
  if (!pages.has(place)) {
    const id = Number(place.split("-")[1]);
    const make = place === "fleet" ? () => new FleetPage()
      : place.startsWith("group") ? () => new ConsumerGroup() : () => new QueryPage(id, overview.schemes);
    pages.set(place, make());
  }
  return pages.get(place);
}

async function render() {
  const place = chosen();
  drawSide(place);
  if (!place) return replace(main, el("p", { class: "empty" }, "There is nothing to show."));
  const page = pageOf(place);
  if (shown !== place) {
    shown = place;
    replace(main, page.parts);
  }
  try {
    if (place.startsWith("query")) {
      const query = overview.queries[Number(place.split("-")[1])];
      document.title = `${query.name} · evenflow`;
      await page.show(query, overview.now);
    } else {
      document.title = "evenflow";
      const version = place === "fleet" ? overview.fleet.version : overview.consumers[Number(place.split("-")[1])].version;
      if (page.version !== version) {
        page.show(await get(place === "fleet" ? "fleet" : `consumers/${place.split("-")[1]}`));
        page.version = version;
      }
    }
  } catch (error) {
    if (page.problem) setText(page.problem, error.message);
  }
  return undefined;
}

const cards = new Map();

function drawSide(place) {
  const wanted = [];
  const head = (text) => wanted.push(heading(text));
  if (overview.queries.length) head("Queries");
  for (const one of overview.queries) {
    const last = one.newest;
    const line = one.error ? (one.state === "waiting" && !last ? "no checkpoint yet" : "not readable") : last ? `${times(last.balance)} · ${count(last.rate)}/s` : "no batch yet";
    wanted.push(card(`query-${one.id}`, place, one.name, one.state, line, one.recent));
  }
  if (overview.consumers.length) head("Consumer groups");
  for (const one of overview.consumers) {
    const line = one.error ? "not readable" : one.messages === null ? "reading …" : `${count(one.messages)} messages behind`;
    wanted.push(card(`group-${one.id}`, place, `${one.group} on ${one.topic}`, one.error ? "silent" : "", line, []));
  }
  if (overview.fleet) {
    head("Fleet");
    wanted.push(card("fleet", place, "Nodes and queries", "", "", []));
  }
  // Cards are kept, so that the focus stays where it is.
  if (side.children.length !== wanted.length) replace(side, wanted);
}

function heading(text) {
  const key = `h-${text}`;
  if (!cards.has(key)) cards.set(key, el("h2", {}, text));
  return cards.get(key);
}

function card(place, current, name, state, line, recent) {
  if (!cards.has(place)) {
    const parts = { dot: el("span", { class: "dot" }), name: el("span", {}), line: el("span", {}), canvas: el("canvas", { "aria-hidden": "true" }) };
    const made = el("a", { class: "card", href: `#${place}` },
      el("div", { class: "name" }, parts.dot, parts.name), el("div", { class: "line" }, parts.line, parts.canvas));
    cards.set(place, Object.assign(made, { parts }));
  }
  const made = cards.get(place);
  made.parts.dot.className = `dot ${state}`;
  made.parts.dot.hidden = state === "waiting" || state === "";
  setText(made.parts.name, name);
  made.parts.name.title = name;
  setText(made.parts.line, line);
  if (place === current) made.setAttribute("aria-current", "page");
  else made.removeAttribute("aria-current");
  made.recent = recent;
  requestAnimationFrame(() => sparkline(made.parts.canvas, recent));
  return made;
}

function sparkline(canvas, values) {
  canvas.hidden = values.length < 2;
  const drawing = canvas.hidden ? null : prepared(canvas);
  if (!drawing) return;
  const { context, width, height } = drawing;
  const top = Math.max(1.5, ...values);
  const x = (i) => (i / (values.length - 1)) * (width - 2) + 1;
  const y = (value) => height - 2 - ((value - 1) / (top - 1)) * (height - 4);
  context.beginPath();
  values.forEach((value, i) => (i ? context.lineTo(x(i), y(value)) : context.moveTo(x(i), y(value))));
  context.strokeStyle = colour("var(--accent)");
  context.lineWidth = 1.25;
  context.stroke();
  context.lineTo(x(values.length - 1), height);
  context.lineTo(x(0), height);
  context.fillStyle = tint(14);
  context.fill();
}

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(themeButton, `theme: ${theme}`);
  localStorage.setItem("evenflow-theme", theme);
  for (const page of pages.values()) page.rebuild?.();
  if (overview) drawSide(shown);
}

themeButton.addEventListener("click", () => {
  const now = localStorage.getItem("evenflow-theme") ?? "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
setTheme(THEMES.includes(localStorage.getItem("evenflow-theme")) ? localStorage.getItem("evenflow-theme") : "auto");

addEventListener("hashchange", () => overview && places().includes(location.hash.slice(1)) && render());
addEventListener("keydown", (event) => {
  if (event.key === "Escape") pages.get(shown)?.zoom?.({ begin: null, end: null, last: null });
});

follow(
  (found) => {
    overview = found;
    render();
  },
  (on) => {
    const live = document.getElementById("live");
    live.className = `live ${on ? "on" : "off"}`;
    setText(document.getElementById("live-text"), on ? "live" : "the server does not answer; trying again");
  },
);
