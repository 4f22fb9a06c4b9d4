// Numbers, times and keys in words.

export function count(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 10000) return Math.round(value).toLocaleString("en");
  for (const [limit, unit] of [[1e6, "k"], [1e9, "M"], [1e12, "G"]]) {
    if (size < limit) return `${digits(value / (limit / 1000))} ${unit}`;
  }
  return `${digits(value / 1e12)} T`;
}

// For an axis: without zeros at the end.
export const short = (value) => count(value).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");

export function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export const whole = (value) => Math.round(value).toLocaleString("en");
export const times = (value) => `${value.toFixed(2)} ×`;
export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

export function bytes(value) {
  if (value < 1000) return `${Math.round(value)} B`;
  for (const [limit, unit] of [[1e6, "kB"], [1e9, "MB"], [1e12, "GB"]]) {
    if (value < limit) return `${digits(value / (limit / 1000))} ${unit}`;
  }
  return `${digits(value / 1e12)} TB`;
}

export function seconds(value) {
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${digits(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`;
}

export const ago = (value) => (value < 1.5 ? "just now" : `${seconds(Math.round(value))} ago`);

const two = (number) => String(number).padStart(2, "0");

export function clock(time, increment = 1) {
  const at = new Date(time * 1000);
  if (increment >= 86400) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const hours = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return increment >= 60 ? hours : `${hours}:${two(at.getSeconds())}`;
}

export function moment(time) {
  return `${clock(time, 86400)}, ${clock(time)}`;
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff]/g;

// A key of the metrics, which is a JSON list of its columns: control characters are shown, not obeyed.
export function keyName(text) {
  let parts;
  try {
    parts = JSON.parse(text);
  } catch {
    parts = [text];
  }
  if (!Array.isArray(parts)) parts = [parts];
  const words = parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part)));
  const name = words.join(", ").slice(0, 600);
  if (name === "") return "(empty text)";
  return name.replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
