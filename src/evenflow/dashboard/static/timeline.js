// The charts of batches over time, on one time axis: balance with changes of plan, durations, rows, state.

import { colour, el, replace, setText, tint } from "./dom.js";
import { bytes, clock, count, moment, percent, seconds, short, times, whole } from "./format.js";

const SYNC = "batches";
const STRENGTH = { tasks: 100, messages: 100, sink: 62, plan: 40, observe: 28, commit: 18 };
const MARKS = { scheme: "scheme", partitions: "partitions", move: "keys moved", plan: "new table", dead: "rows set aside" };

export class Timeline {
  // `zoomed(begin, end)` is called when a range is chosen, `picked(batch)` when a point is.
  constructor(zoomed, picked) {
    this.zoomed = zoomed;
    this.picked = picked;
    this.readout = el("p", { class: "readout", "aria-live": "off" });
    this.place = el("div", {});
    this.element = el("div", {}, this.place, this.readout);
    this.charts = [];
    this.data = null;
    new ResizeObserver(() => this.resize()).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  show(data) {
    const kind = Object.keys(data.steps).join() + (data.state_bytes?.some((b) => b > 0) ? "+state" : "") + (data.load_max ? "+load" : "");
    this.data = data;
    if (kind !== this.kind || !this.charts.length) {
      this.kind = kind;
      this.rebuild();
    } else {
      for (const chart of this.charts) chart.plot.setData(chart.columns(data));
    }
    this.tell(null);
  }

  rebuild() {
    for (const { plot } of this.charts) plot.destroy();
    this.charts = [];
    replace(this.place);
    const data = this.data;
    if (!data || !data.batches) return;
    const steps = Object.keys(data.steps).sort((a, b) => (STRENGTH[b] ?? 50) - (STRENGTH[a] ?? 50));
    this.add({
      title: "Fullest partition ÷ average",
      height: 190,
      columns: (d) => [d.time, d.balance_max, d.balance],
      series: [
        { label: "worst", stroke: tint(45), width: 1, text: times },
        { label: "mean", stroke: colour("var(--accent)"), width: 2, text: times },
      ],
      bands: [{ series: [1, 2], fill: tint(18) }],
      range: (u, low, high) => [1, Math.max(1.5, (high || 1) * 1.06)],
      values: (value) => value.toFixed(value < 10 ? 1 : 0),
      marks: true,
    });
    this.add({
      title: "Seconds per batch, by step",
      height: 150,
      columns: (d) => [d.time, ...stacked(steps.map((step) => d.steps[step]))],
      raw: (d) => [null, ...steps.map((step) => d.steps[step]).reverse()],
      series: steps
        .map((step) => ({ label: step, fill: tint(STRENGTH[step] ?? 50), width: 0, text: seconds }))
        .reverse(),
      range: (u, low, high) => [0, (high || 1) * 1.06],
      values: (value) => `${+value.toFixed(2)} s`,
    });
    this.add({
      title: "Rows per second",
      height: 120,
      columns: (d) => [d.time, d.rate],
      series: [{ label: "rows per second", stroke: colour("var(--accent)"), fill: tint(14), width: 1.5, text: count }],
      range: (u, low, high) => [0, (high || 1) * 1.06],
      values: short,
    });
    if (data.load_max) {
      this.add({
        title: "Partitions",
        height: 110,
        columns: (d) => [d.time, d.partitions],
        series: [{ label: "partitions", stroke: colour("var(--accent)"), fill: tint(14), width: 1.5, text: whole }],
        range: (u, low, high) => [0, (high || 1) * 1.06],
        values: short,
      });
      this.add({
        title: "Share of the time that the busiest partition has to work",
        height: 110,
        columns: (d) => [d.time, d.load_max ?? d.time.map(() => 0)],
        series: [{ label: "load", stroke: colour("var(--accent)"), fill: tint(14), width: 1.5, text: percent }],
        range: (u, low, high) => [0, Math.max(1, (high || 1) * 1.06)],
        values: percent,
      });
    }
    if (data.state_bytes.some((b) => b > 0)) {
      this.add({
        title: "State",
        height: 110,
        columns: (d) => [d.time, d.state_bytes],
        series: [{ label: "state", stroke: colour("var(--accent)"), fill: tint(14), width: 1.5, text: bytes }],
        range: (u, low, high) => [0, (high || 1) * 1.06],
        values: (value) => bytes(value).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " "),
      });
    }
  }

  add(chart) {
    const caption = el("div", { class: "caption" }, el("b", {}, chart.title));
    const readings = chart.series.map((one) => {
      const value = el("b", {});
      const swatch = el("i", {});
      swatch.style.background = one.fill && !one.stroke ? one.fill : one.stroke;
      const box = el("span", { class: "legend" }, swatch, one.label, value);
      return { value, box };
    });
    if (chart.series.length > 1) caption.append(...readings.map(({ box }) => box).reverse());
    const holder = el("div", {});
    this.place.append(el("div", { class: "chart" }, caption, holder));
    const muted = colour("var(--muted)");
    const grid = { stroke: colour("var(--line)"), width: 1 };
    const font = "12px system-ui, sans-serif";
    const options = {
      width: Math.max(this.place.clientWidth, 200),
      height: chart.height,
      padding: [8, 22, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: SYNC },
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, fill: colour("var(--surface)"), stroke: colour("var(--accent)") },
      },
      scales: { x: { time: true }, y: { range: chart.range } },
      axes: [
        {
          stroke: muted, grid: { show: false }, ticks: { stroke: grid.stroke, width: 1, size: 4 }, font, size: 26, gap: 4,
          values: (u, splits, axis, space, increment) => splits.map((at) => clock(at, increment)),
        },
        { stroke: muted, grid, ticks: { show: false }, font, size: 58, gap: 6, values: (u, splits) => splits.map(chart.values) },
      ],
      series: [{}, ...chart.series.map((one) => ({ ...one, points: { show: (u) => Boolean(one.stroke) && u.data[0].length < 40, size: 4 } }))],
      bands: chart.bands ?? [],
      hooks: {
        setCursor: [(u) => this.hover(u)],
        setSelect: [(u) => this.select(u)],
        draw: chart.marks ? [(u) => this.drawMarks(u)] : [],
      },
    };
    const plot = new window.uPlot(options, chart.columns(this.data), holder);
    plot.over.addEventListener("click", () => {
      const at = plot.cursor.idx;
      if (at !== null && at !== undefined && !this.selecting) this.picked(this.data.last[at]);
    });
    this.charts.push({ ...chart, plot, readings });
  }

  select(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    this.selecting = true;
    setTimeout(() => (this.selecting = false), 0);
    const begin = u.posToVal(left, "x");
    const end = u.posToVal(left + width, "x");
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.zoomed(begin, end);
  }

  hover(u) {
    const at = u.cursor.idx ?? null;
    if (u === this.charts[0]?.plot || at !== null) this.tell(u.cursor.left < 0 ? null : at);
  }

  // The values at a point, or the newest ones.
  tell(at) {
    const data = this.data;
    if (!data?.batches) return;
    const index = at ?? data.time.length - 1;
    // With one batch per point, the worst of it is the batch itself.
    const worst = this.charts[0]?.readings[0];
    if (worst) worst.box.hidden = data.per_point === 1;
    for (const chart of this.charts) {
      const columns = (chart.raw ?? chart.columns)(data);
      chart.readings.forEach(({ value }, i) => {
        const number = columns[i + 1][index];
        setText(value, number === undefined ? "" : chart.series[i].text(number));
      });
    }
    const first = data.first[index];
    const last = data.last[index];
    const which = first === last ? `Batch ${whole(last)}` : `Batches ${whole(first)} to ${whole(last)}`;
    const parts = [`${which}, ${moment(data.time[index])}`, `${count(data.rows[index])} rows`, times(data.balance_max[index])];
    if (at !== null) parts.push(...data.events.filter((e) => e.batch >= first && e.batch <= last).map((e) => e.what));
    setText(this.readout, parts.join(" · "));
  }

  // A line where something changed, and a tick in the lane above it; those that fall together are one.
  drawMarks(u) {
    const { ctx, bbox } = u;
    const scale = window.devicePixelRatio || 1;
    const drawn = new Set();
    ctx.save();
    for (const event of this.data.events) {
      const x = Math.round(u.valToPos(event.time, "x", true));
      const strong = event.kind === "scheme" || event.kind === "partitions" || event.kind === "dead";
      if (drawn.has(x + strong) || x < bbox.left || x > bbox.left + bbox.width) continue;
      drawn.add(x + strong);
      ctx.fillStyle = strong ? colours.ink : colours.muted;
      if (strong) ctx.fillRect(x, bbox.top, scale, bbox.height);
      ctx.beginPath();
      ctx.arc(x + scale / 2, bbox.top, (strong ? 4 : 2.5) * scale, 0, 7);
      ctx.fill();
    }
    ctx.restore();
  }

  resize() {
    const width = Math.max(this.place.clientWidth, 200);
    for (const { plot, height } of this.charts) {
      if (Math.abs(plot.width - width) > 1) plot.setSize({ width, height });
    }
  }
}

// Resolved when a chart is first drawn, and again with the theme.
const colours = {
  get ink() {
    return colour("var(--ink)");
  },
  get muted() {
    return colour("var(--muted)");
  },
};

// Each column on top of those after it; the highest comes first, so that lower ones cover its foot.
function stacked(columns) {
  const sums = [];
  let below = columns[0]?.map(() => 0) ?? [];
  for (const column of columns) {
    below = column.map((value, i) => value + below[i]);
    sums.push(below);
  }
  return sums.reverse();
}

export function eventTable(data, picked) {
  if (!data.events.length) return el("p", { class: "empty" }, "Nothing has changed: one plan for all batches.");
  const rows = data.events.slice(-200).reverse().map((event) => {
    const go = () => picked(event.batch);
    return el(
      "tr",
      { class: "link", onclick: go },
      el("td", { class: "once muted" }, clock(event.time)),
      el("td", { class: "num" }, el("a", { href: "#", onclick: (e) => e.preventDefault() }, whole(event.batch))),
      el("td", { class: event.what.length < 32 ? "once" : "" }, event.what, " ", el("span", { class: "sr" }, MARKS[event.kind] ?? "")),
      el("td", { class: "why" }, event.why),
    );
  });
  const heads = el("tr", {}, el("th", {}, "time"), el("th", { class: "num" }, "batch"), el("th", {}, "what"), el("th", {}, "why"));
  return el("div", { class: "tall", tabindex: "0", role: "region", "aria-label": "Changes of plan and moves" },
    el("table", {}, el("thead", {}, heads), el("tbody", {}, rows)));
}
