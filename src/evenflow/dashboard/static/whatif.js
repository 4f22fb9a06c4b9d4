// What another scheme, number of partitions or θmax would do, asked of the server.

import { get } from "./api.js";
import { el, replace } from "./dom.js";
import { seconds, times, whole } from "./format.js";

const HEADS = ["", "partitions", "fullest ÷ average", "busiest task", "partitions per key", "keys moved"];

export class WhatIf {
  constructor(id, schemes) {
    this.id = id;
    this.answers = [];
    this.scheme = el("select", { name: "scheme" }, schemes.map((name) => el("option", { value: name }, name)));
    this.partitions = el("input", { type: "number", name: "partitions", min: 1, max: 4096, required: true });
    this.theta = el("input", { type: "number", name: "theta", min: 0.1, max: 100, step: "any", value: 8 });
    this.button = el("button", { type: "submit", class: "main" }, "Ask");
    this.problem = el("p", { class: "problem", role: "alert" });
    this.place = el("div", { class: "scroll", "aria-live": "polite" });
    const form = el("form", { class: "ask", onsubmit: (event) => this.ask(event) },
      el("label", {}, "scheme", this.scheme), el("label", {}, "partitions", this.partitions),
      el("label", {}, "θmax in %, for table", this.theta), this.button);
    this.scheme.addEventListener("change", () => this.enable());
    this.element = el("section", { class: "panel", id: "what-if" }, el("header", {}, el("h2", {}, "What if")),
      form, this.problem, this.place,
      el("p", { class: "note" },
        "Answered by the simulator from the keys that the last batches recorded: hot keys by their counts, all " +
        "others evenly. A scheme that splits keys needs an operator with a merge."));
    this.enable();
  }

  show(newest) {
    if (!this.partitions.value && newest?.partitions) {
      this.partitions.value = newest.partitions;
      if ([...this.scheme.options].some((one) => one.value === newest.scheme)) this.scheme.value = newest.scheme;
      this.enable();
    }
    this.draw();
  }

  enable() {
    this.theta.disabled = this.scheme.value !== "table";
  }

  async ask(event) {
    event.preventDefault();
    this.problem.textContent = "";
    this.button.disabled = true;
    this.button.textContent = "Simulating …";
    const theta = this.theta.disabled || !this.theta.value ? null : Number(this.theta.value) / 100;
    try {
      const found = await get(`queries/${this.id}/what-if`, { scheme: this.scheme.value, partitions: this.partitions.value, theta });
      this.answers = [found, ...this.answers].slice(0, 8);
      this.draw();
    } catch (error) {
      this.problem.textContent = error.message;
    }
    this.button.disabled = false;
    this.button.textContent = "Ask";
  }

  draw() {
    if (!this.answers.length) return;
    const { now, batch } = this.answers[0];
    const row = (name, one, moved) => [
      el("td", {}, name), el("td", { class: "num" }, whole(one.partitions)), el("td", { class: "num" }, times(one.max_over_average)),
      el("td", { class: "num" }, seconds(one.busiest_seconds)), el("td", { class: "num" }, one.replication.toFixed(2)),
      el("td", { class: "num" }, moved)];
    const rows = this.answers.map((one) => {
      const theta = one.theta === null ? "" : `, θmax ${+(100 * one.theta).toFixed(2)} %`;
      return el("tr", {}, row(`${one.scheme}${theta}`, one, one.moved_keys ? whole(one.moved_keys) : "–"));
    });
    const heads = HEADS.map((text, i) => el("th", { class: i ? "num" : "" }, text));
    replace(this.place, el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {},
      el("tr", { class: "now" }, row(`now: ${now.scheme}, measured in batch ${whole(batch)}`, now, "–")), rows)));
  }
}
