// One batch: the load of each partition, busiest first, and its hot keys.

import { colour, el, prepared, setText, tint } from "./dom.js";
import { bytes, count, keyName, percent, seconds, times, whole } from "./format.js";

const MUCH = 1.3; // × average, from which a partition stands out
const MEASURES = { rows: ["rows", whole], seconds: ["time", seconds], state: ["state", bytes] };

export class Partitions {
  // `wanted(batch)` is called when another batch is asked for; -1 is the newest.
  constructor(wanted) {
    this.measure = "rows";
    this.at = -1; // none is pointed at: the readout is of the busiest
    this.batch = null;
    this.title = el("h2", {}, "Partitions");
    this.number = el("input", { type: "number", min: 0, step: 1, "aria-label": "Batch" });
    this.number.style.width = "96px";
    this.number.addEventListener("change", () => this.number.value !== "" && wanted(Number(this.number.value)));
    const step = (by) => () => this.batch && wanted(Math.max(0, this.batch.batch + by));
    this.newest = el("button", { type: "button", onclick: () => wanted(-1) }, "newest");
    this.buttons = Object.entries(MEASURES).map(([name, [label]]) =>
      el("button", { type: "button", "aria-pressed": name === this.measure, onclick: () => this.choose(name) }, label));
    this.canvas = el("canvas", { class: "bars", tabindex: "0", role: "slider", "aria-label": "Partitions, busiest first" });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.readout = el("p", { class: "readout" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.element = el("section", { class: "panel", id: "partitions" },
      el("header", {}, this.title,
        el("span", { class: "group" },
          el("button", { type: "button", "aria-label": "The batch before", onclick: step(-1) }, "‹"),
          el("button", { type: "button", "aria-label": "The batch after", onclick: step(1) }, "›")),
        this.number, this.newest,
        el("span", { class: "group", role: "group", "aria-label": "Measure" }, this.buttons)),
      this.problem, this.canvas, this.readout);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  show(batch, follows) {
    const same = this.batch?.batch === batch.batch;
    this.batch = batch;
    if (!same) this.at = -1;
    this.problem.textContent = "";
    this.newest.setAttribute("aria-pressed", follows);
    if (document.activeElement !== this.number) this.number.value = batch.batch;
    this.sort();
  }

  fail(error) {
    setText(this.problem, error.message);
  }

  choose(measure) {
    this.measure = measure;
    Object.keys(MEASURES).forEach((name, i) => this.buttons[i].setAttribute("aria-pressed", name === measure));
    this.at = -1;
    this.sort();
  }

  sort() {
    const loads = this.batch?.partition_loads;
    this.order = loads ? loads[this.measure].map((_, i) => i) : [];
    if (loads) this.order.sort((a, b) => loads[this.measure][b] - loads[this.measure][a] || a - b);
    const n = this.order.length;
    const title = n ? `${whole(n)} partitions, busiest first, in batch ${whole(this.batch.batch)}` : "Partitions";
    setText(this.title, title);
    this.canvas.setAttribute("aria-valuemin", 1);
    this.canvas.setAttribute("aria-valuemax", Math.max(n, 1));
    this.draw();
  }

  draw() {
    const drawing = prepared(this.canvas);
    if (!drawing) return;
    const { context, width, height } = drawing;
    context.clearRect(0, 0, width, height);
    const loads = this.batch?.partition_loads;
    if (!loads || !this.order.length) {
      const why = !this.batch ? "" : loads ? "This batch had no rows." : "The loads of this batch are too old to be kept; newer batches have theirs.";
      setText(this.readout, why);
      return;
    }
    const values = this.order.map((i) => loads[this.measure][i]);
    const average = values.reduce((sum, value) => sum + value, 0) / values.length;
    const top = Math.max(values[0], average * 1.3, 1e-9);
    const n = values.length;
    const room = height - 8;
    const [full, even, ink] = [colour("var(--accent)"), tint(42), colour("var(--ink)")];
    const slot = width / n;
    const gap = slot > 6 ? Math.min(3, slot * 0.2) : 0;
    // Whole pixels: thousands of bars would else shimmer.
    const edge = (i) => (gap ? i * slot : Math.round(i * slot));
    for (let i = 0; i < n; i += 1) {
      const wide = edge(i + 1) - edge(i) - gap;
      if (wide <= 0 && i !== this.at) continue;
      const tall = (values[i] / top) * room;
      context.fillStyle = average && values[i] >= MUCH * average ? full : even;
      if (i === this.at) context.fillStyle = ink;
      context.fillRect(edge(i), height - tall, Math.max(wide, 1 + (i === this.at)), tall);
    }
    const y = Math.round(height - (average / top) * room) + 0.5;
    context.strokeStyle = ink;
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = ink;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "right";
    context.fillText(`average ${MEASURES[this.measure][1](average)}`, width - 4, y - 5);
    this.tell(average);
  }

  tell(average) {
    const loads = this.batch.partition_loads;
    const at = Math.max(0, this.at);
    const i = this.order[at];
    const value = loads[this.measure][i];
    const share = average ? `, ${times(value / average)} the average` : "";
    const text = `No. ${whole(at + 1)}: partition ${loads.partition[i]} with ${whole(loads.rows[i])} rows of ` +
      `${whole(loads.keys[i])} keys in ${seconds(loads.seconds[i])}, ${bytes(loads.state[i])} of state${share}`;
    setText(this.readout, text);
    this.canvas.setAttribute("aria-valuenow", at + 1);
    this.canvas.setAttribute("aria-valuetext", text);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    this.move(Math.floor(((event.clientX - box.left) / box.width) * this.order.length));
  }

  key(event) {
    const n = this.order.length;
    const steps = { ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, PageDown: 25, PageUp: -25, Home: -n, End: n };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.move(this.at + steps[event.key]);
  }

  move(to) {
    const bounded = Math.max(0, Math.min(this.order.length - 1, to));
    if (bounded === this.at || !this.order.length) return;
    this.at = bounded;
    this.draw();
  }
}

export function hotKeys(batch) {
  const hot = batch.hot_keys;
  if (hot === null) return el("p", { class: "empty" }, "The hot keys of this batch are too old to be kept.");
  if (!hot.length || !batch.rows) return el("p", { class: "empty" }, "No key was counted in this batch.");
  const share = batch.partitions ? 1 / batch.partitions : 0;
  const rows = hot.map((one) => {
    const low = one.lower / batch.rows;
    const high = Math.min(1, one.upper / batch.rows);
    const bar = el("div", { class: "share" }, el("b", {}), el("i", {}));
    bar.children[0].style.width = `${100 * Math.min(1, high)}%`;
    bar.children[1].style.width = `${100 * Math.min(1, low)}%`;
    const bounds = one.lower === one.upper ? count(one.lower) : `${count(one.lower)} – ${count(one.upper)}`;
    const name = keyName(String(one.key));
    return el("tr", {},
      el("td", { class: "key" }, el("bdi", { title: name }, name), bar),
      el("td", { class: "num" }, bounds),
      el("td", { class: "num" }, percent(low)),
      el("td", { class: "num" }, share ? times(low / share) : "–"));
  });
  const heads = ["key", "rows", "share", "of a partition"].map((text, i) => el("th", { class: i ? "num" : "" }, text));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)));
}

