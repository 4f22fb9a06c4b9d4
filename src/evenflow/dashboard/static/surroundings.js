// A consumer group's lag, and a fleet.

import { colour, el, replace, setText, tint } from "./dom.js";
import { clock, count, moment, seconds, short, whole } from "./format.js";

export class ConsumerGroup {
  constructor() {
    this.title = el("h1", {});
    this.problem = el("p", { class: "problem", role: "alert" });
    this.tiles = el("dl", { class: "tiles" });
    this.chart = el("div", {});
    this.table = el("div", { class: "scroll" });
    this.element = el("div", { class: "stack" });
    this.parts = [
      el("div", { class: "head" }, this.title), this.problem, this.tiles,
      el("section", { class: "panel" }, el("header", {}, el("h2", {}, "Lag in messages")), this.chart),
      el("section", { class: "panel" }, el("header", {}, el("h2", {}, "Partitions, furthest behind first")), this.table)];
  }

  // With the colours of another theme.
  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (this.data) this.draw(this.data);
  }

  show(data) {
    this.data = data;
    setText(this.title, `${data.group} on ${data.topic}`);
    setText(this.problem, data.error ?? "");
    const last = data.messages.length - 1;
    replace(this.tiles,
      tile("messages behind", last < 0 ? "–" : count(data.messages[last])),
      tile("oldest of them", last < 0 ? "–" : seconds(data.seconds[last])),
      tile("partitions", whole(data.partitions.length)));
    this.draw(data);
    if (!data.partitions.length) return replace(this.table, el("p", { class: "empty" }, "Nothing has been read yet."));
    const ordered = [...data.partitions].sort((a, b) => b.messages - a.messages || a.partition - b.partition);
    const rows = ordered.map((one) => el("tr", {}, el("td", {}, String(one.partition)),
      el("td", { class: "num" }, whole(one.messages)),
      el("td", { class: "num" }, one.seconds === null ? "unknown" : seconds(one.seconds)),
      el("td", { class: "num" }, one.offset === null ? "none yet" : whole(one.offset)), el("td", { class: "num" }, whole(one.end))));
    return replace(this.table, tableOf(["partition", "messages behind", "age of the oldest", "next", "end"], rows));
  }

  draw(data) {
    if (data.time.length < 2) return;
    const columns = [data.time, data.messages];
    if (this.plot) {
      this.plot.setData(columns);
      return;
    }
    const axis = { stroke: colour("var(--muted)"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    this.plot = new window.uPlot({
      width: Math.max(this.chart.clientWidth, 200), height: 200, legend: { show: false }, cursor: { y: false },
      scales: { y: { range: (u, low, high) => [0, Math.max(1, high * 1.06)] } },
      axes: [
        { ...axis, grid: { show: false }, values: (u, splits, i, space, step) => splits.map((at) => clock(at, step)) },
        { ...axis, size: 58, grid: { stroke: colour("var(--line)"), width: 1 }, values: (u, splits) => splits.map(short) }],
      series: [{}, { stroke: colour("var(--accent)"), fill: tint(14), width: 1.5 }],
    }, columns, this.chart);
    if (this.sized) return;
    this.sized = new ResizeObserver(() => this.plot?.setSize({ width: Math.max(this.chart.clientWidth, 200), height: 200 }));
    this.sized.observe(this.chart);
  }
}

export class FleetPage {
  constructor() {
    this.problem = el("p", { class: "problem", role: "alert" });
    this.tiles = el("dl", { class: "tiles" });
    this.nodes = el("div", { class: "scroll" });
    this.queries = el("div", { class: "scroll" });
    this.moves = el("div", { class: "tall" });
    const panel = (title, place) => el("section", { class: "panel" }, el("header", {}, el("h2", {}, title)), place);
    this.parts = [el("div", { class: "head" }, el("h1", {}, "Fleet")), this.problem, this.tiles,
      el("div", { class: "pair" }, panel("Queries", this.queries), panel("Nodes", this.nodes)), panel("Moves", this.moves)];
  }

  show({ error, status }) {
    setText(this.problem, error ?? (status && !status.coordinator ? "No coordinator is running; start it with `evenflow fleet up`." : ""));
    if (!status) return;
    replace(this.tiles,
      tile("queries running", `${status.queries.filter((q) => q.state === "running").length} of ${status.queries.length}`),
      tile("nodes alive", `${status.nodes.filter((n) => n.alive).length} of ${status.nodes.length}`),
      tile("load correlation", status.correlation === null ? "–" : status.correlation.toFixed(2)));
    replace(this.nodes, tableOf(["node", "state", "queries", "load"], status.nodes.map((one) => el("tr", {},
      el("td", {}, one.name), el("td", {}, one.draining ? "draining" : one.alive ? "alive" : "not running"),
      el("td", { class: "num" }, whole(one.queries)), el("td", { class: "num" }, `${one.load.toFixed(2)} ± ${one.load_deviation.toFixed(2)}`))), 2));
    replace(this.queries, tableOf(["query", "node", "state", "load", "batches"], status.queries.map((one) => el("tr", {},
      el("td", {}, one.name, one.error ? el("div", { class: "problem" }, one.error) : null), el("td", {}, one.node ?? "–"), el("td", {}, one.state),
      el("td", { class: "num" }, one.load.toFixed(2)), el("td", { class: "num" }, whole(one.batches)))), 3));
    replace(this.moves, status.moves.length
      ? tableOf(["time", "query", "way", "why"], [...status.moves].reverse().map((one) => el("tr", {},
        el("td", { class: "once muted" }, moment(one.time)), el("td", {}, one.query),
        el("td", { class: "once" }, `${one.from ?? "nowhere"} → ${one.to}`), el("td", { class: "why" }, one.reason))), 9)
      : el("p", { class: "empty" }, "No query has moved yet."));
  }
}

export function tile(name, value, sub = "", alert = false) {
  return el("div", { class: alert ? "tile alert" : "tile" }, el("dt", {}, name), el("dd", {}, value), el("div", { class: "sub", title: sub }, sub));
}

function tableOf(heads, rows, numbersFrom = 1) {
  const cells = heads.map((text, i) => el("th", { class: i >= numbersFrom ? "num" : "" }, text));
  return el("table", {}, el("thead", {}, el("tr", {}, cells)), el("tbody", {}, rows));
}
