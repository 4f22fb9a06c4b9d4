// One query: figures, charts, partitions, hot keys, changes, what-if.

import { get } from "./api.js";
import { el, replace, setText } from "./dom.js";
import { ago, bytes, count, percent, seconds, times, whole } from "./format.js";
import { Partitions, hotKeys } from "./partitions.js";
import { tile } from "./surroundings.js";
import { Timeline, eventTable } from "./timeline.js";
import { WhatIf } from "./whatif.js";

const MUCH = 1.3;
const NEWEST = -1;
const RANGES = [["all", null], ["last 6 hours", 21600], ["last hour", 3600], ["last 10 minutes", 600]];
const WORDS = { running: "running", stopped: "stopped", ended: "ended without a word", silent: "not heard of for a while", waiting: "" };

export class QueryPage {
  constructor(id, schemes) {
    this.id = id;
    this.range = { begin: null, end: null, last: null };
    this.wanted = NEWEST;
    this.title = el("h1", {});
    this.state = el("span", { class: "state" });
    this.where = el("p", { class: "where" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.reading = el("p", { class: "muted" });
    this.bar = el("i", {});
    this.progress = el("div", {}, this.reading, el("div", { class: "progress" }, this.bar));
    this.tiles = el("dl", { class: "tiles" });
    this.timeline = new Timeline((begin, end) => this.zoom({ begin, end, last: null }), (batch) => this.pick(batch));
    this.partitions = new Partitions((batch) => this.pick(batch));
    this.whatIf = new WhatIf(id, schemes);
    this.hot = el("div", { id: "hot-keys" });
    this.hotTitle = el("h2", {}, "Hot keys");
    this.events = el("div", { id: "changes" });
    this.eventsTitle = el("h2", {}, "Changes of plan, and moves");
    this.ranges = el("select", { "aria-label": "Time range", onchange: () => this.chooseRange() },
      RANGES.map(([name], i) => el("option", { value: i }, name)), el("option", { value: "own", disabled: true }, "own range"));
    this.all = el("button", { type: "button", disabled: true, onclick: () => this.zoom({ begin: null, end: null, last: null }) }, "Show all");
    const panel = (title, place, ...more) => el("section", { class: "panel" }, el("header", {}, title, ...more), place);
    this.charts = panel(el("h2", {}, "Over time"), this.timeline.element, this.ranges, this.all);
    this.body = [this.charts, this.partitions.element,
      el("div", { class: "pair" }, panel(this.eventsTitle, this.events), panel(this.hotTitle, this.hot)),
      this.whatIf.element];
    this.empty = el("p", { class: "empty" });
    this.parts = [el("div", { class: "head" }, this.title, this.state, this.where), this.problem, this.progress, this.empty, this.tiles, ...this.body];
    this.seen = { series: -1, batch: null };
    this.element = null;
  }

  // Called with every overview.
  async show(query, now) {
    this.query = query;
    this.now = now;
    setText(this.title, query.name);
    setText(this.where, query.location);
    const dot = el("span", { class: `dot ${query.state}`, "aria-hidden": "true" });
    const driver = ["running", "silent"].includes(query.state) && query.driver !== "another process" ? ` · ${query.driver}` : "";
    const words = WORDS[query.state] ?? query.state;
    replace(this.state, words ? [dot, `${words}${driver}`] : []);
    setText(this.problem, query.error ?? "");
    this.progress.hidden = !query.reading;
    setText(this.reading, query.reading ? `Reading older batches: ${whole(query.reading)} to go` : "");
    this.bar.style.width = `${(100 * query.batches) / Math.max(1, query.batches + query.reading)}%`;
    const none = !query.newest;
    this.empty.hidden = !none;
    setText(this.empty, none && !query.error ? "No batch yet: this page fills with the query's first one." : "");
    for (const part of [this.tiles, ...this.body]) part.hidden = none;
    if (none) return;
    this.showTiles(query, query.newest, now);
    this.whatIf.show(query.newest);
    await this.refresh();
  }

  showTiles(query, last, now) {
    const [low, high] = last.hottest;
    const bounds = high - low > 0.0005 ? `at most ${percent(high)}` : "of the rows";
    const late = [last.late_rows && `${whole(last.late_rows)} late rows`, last.dead_letters && `${whole(last.dead_letters)} set aside`];
    replace(this.tiles,
      tile("rows per second", count(last.rate), `${count(last.rows)} rows, ${count(last.keys)} keys`),
      tile("last batch", seconds(last.seconds), `no. ${whole(last.batch)}, ${ago(now - last.began)}`),
      tile("fullest ÷ average", times(last.balance), `${whole(last.partitions)} partitions`, last.balance >= MUCH),
      tile("scheme", last.scheme || "–", last.reason),
      last.scheme === "gateway" ? null : tile("hottest key", high ? percent(low) : "–", high ? bounds : "none counted"),
      last.scheme === "gateway" ? null : tile("state", bytes(last.state_bytes), `${last.replication.toFixed(2)} partitions per key`),
      query.lag === null ? null : tile("behind the topic", count(query.lag), "messages"),
      last.load === null ? null : tile("load", percent(last.load), last.sizing, last.load > 1),
      late.some(Boolean) ? tile("did not count", late.filter(Boolean).join(", "), "in the last batch", true) : null);
  }

  // Fetches what has changed; asks again later if it is still at it.
  async refresh() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      await this.fetch();
      setText(this.problem, this.query.error ?? "");
    } catch (error) {
      setText(this.problem, error.message);
    }
    // Not more than once a second, however often something changes.
    setTimeout(() => {
      this.busy = false;
      if (this.again && this.timeline.place.isConnected) {
        this.again = false;
        this.refresh();
      }
    }, 1000);
  }

  async fetch() {
    const { begin, end, last } = this.range;
    const version = this.query.version;
    const from = last === null ? begin : this.query.newest.began - last;
    const key = JSON.stringify([version, begin, end, last, this.points()]);
    if (key !== this.seen.series) {
      const data = await get(`queries/${this.id}/series`, { begin: from, end, points: this.points() });
      this.seen.series = key;
      this.timeline.show(data);
      setText(this.charts.querySelector("h2"), data.batches ? `Over time: ${whole(data.batches)} batches${data.per_point > 1 ? `, ${whole(data.per_point)} per point` : ""}` : "No batch in this range");
      const more = data.total > data.events.length ? ` (the last ${whole(data.events.length)} of ${whole(data.total)})` : "";
      setText(this.eventsTitle, `Changes of plan, and moves${more}`);
      // Rows that someone reads or has the focus in are not exchanged for the same.
      const text = JSON.stringify(data.events);
      if (text !== this.seen.events) {
        this.seen.events = text;
        replace(this.events, eventTable(data, (batch) => this.pick(batch)));
      }
    }
    const wanted = this.wanted === NEWEST ? this.query.newest.batch : this.wanted;
    if (wanted !== this.seen.batch) await this.showBatch(wanted);
  }

  points() {
    return Math.max(100, Math.min(1200, Math.round(this.timeline.place.clientWidth || 600)));
  }

  async showBatch(batch) {
    const found = await get(`queries/${this.id}/batches/${batch}`);
    this.seen.batch = found.batch;
    this.partitions.show(found, this.wanted === NEWEST);
    if (Array.isArray(found.hot_keys) || found.hot_keys === null) replace(this.hot, hotKeys(found));
    setText(this.hotTitle, `Hot keys in batch ${whole(found.batch)}`);
  }

  async pick(batch) {
    this.wanted = batch;
    try {
      await this.showBatch(batch);
    } catch (error) {
      this.partitions.fail(error);
    }
  }

  zoom(range) {
    this.range = range;
    const own = range.begin !== null || range.end !== null;
    if (range.last === null) this.ranges.value = own ? "own" : 0;
    this.all.disabled = !own && range.last === null;
    this.refresh();
  }

  chooseRange() {
    const [, last] = RANGES[Number(this.ranges.value)];
    this.zoom({ begin: null, end: null, last });
  }

  rebuild() {
    this.timeline.rebuild();
    this.partitions.draw();
  }
}

