// Tables that are sorted by their heads and filtered by a word; on a phone each row is a card.

import { h, s } from "./elements.js";
import { span, whole } from "./words.js";

/** By table: its filter, and by the column of which title it is sorted, which way. */
const settings = new Map();
let redraw = () => {};

/** Says what draws the page anew when a table is sorted or filtered. */
export function onTable(callback) {
  redraw = callback;
}

/**
 * `columns`: title, `show` (what is in the cell), `by` (what it is sorted and filtered by), and
 * whether it is a number.
 */
export function table({ id, caption, columns: all, rows, none, left_out = 0 }) {
  const isSaid = (value) => value !== null && value !== undefined && value !== "" && value !== false;
  // A column in which nothing ever stands says nothing.
  const columns = all.filter((column) => rows.length === 0 || rows.some((row) => isSaid(column.show(row))));
  const setting = settings.get(id) ?? { filter: "", by: null, down: false };
  settings.set(id, setting);
  const said = (column, row) => (column.by ? column.by(row) : "");
  const wanted = setting.filter.trim().toLowerCase();
  let shown = rows.filter((row) => wanted === "" || columns.some((column) => String(said(column, row) ?? "").toLowerCase().includes(wanted)));
  const column = columns.find(({ title }) => title === setting.by);
  if (column) {
    shown = [...shown].sort((one, other) => compare(said(column, one), said(column, other)) * (setting.down ? -1 : 1));
  }
  const cut = Math.max(0, shown.length - MOST);
  const count = `${whole(shown.length)} of ${whole(rows.length + left_out)}`;
  const head = columns.map(({ title, number }) => h("th", {
    scope: "col", class: number ? "number" : null,
    "aria-sort": setting.by === title ? (setting.down ? "descending" : "ascending") : null,
  }, h("button", { type: "button", onclick: () => sort(setting, title, number) }, title,
    setting.by === title && h("span", { "aria-hidden": "true" }, setting.down ? " ↓" : " ↑"))));
  const body = shown.slice(0, MOST).map((row) => h("tr", {}, columns.map((column) =>
    h("td", { class: column.number ? "number" : null, "data-label": column.title }, cell(column.show(row))))));
  return h("section", { "data-key": id, "aria-label": caption },
    rows.length > FEW && h("div", { class: "over" },
      h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${caption}`, oninput: (event) => { setting.filter = event.target.value; redraw(); } }),
      h("span", { class: "count", role: "status" }, count)),
    rows.length === 0 ? h("p", { class: "note" }, none) : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
      h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body))),
    (cut > 0 || left_out > 0) && h("p", { class: "note" }, `${whole(cut + left_out)} more are not shown.`));
}

function cell(value) {
  return value === null || value === undefined || value === "" ? h("span", { class: "soft" }, "–") : value;
}

function sort(setting, title, isNumber) {
  if (setting.by !== title) Object.assign(setting, { by: title, down: Boolean(isNumber) });
  else setting.down = !setting.down;
  redraw();
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one === "number") return 1;
  if (typeof other === "number") return -1;
  return String(one ?? "").localeCompare(String(other ?? ""));
}

/** How full something is, as a bar and in words. */
export function meter(part, text, isGoodFull = false) {
  const full = Math.min(1, Math.max(0, part));
  const state = isGoodFull ? (full < 0.1 ? "over" : full < 0.25 ? "high" : "") : full >= 0.98 ? "over" : full >= 0.85 ? "high" : "";
  return h("span", { class: `meter ${state}`.trim() },
    h("span", { class: "bar", "aria-hidden": "true" }, s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none" }, s("rect", { width: (full * 100).toFixed(1), height: 6 }))),
    h("span", { class: "text" }, text));
}

/** A time that is left, as a part of the longest that it may be. */
export function timeLeft(seconds, whole_s) {
  return meter(seconds / whole_s, span(seconds), true);
}

/** As many rows as anybody reads. */
const MOST = 200;
/** So few rows need no filter. */
const FEW = 8;
