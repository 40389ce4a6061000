// Charts of the last minutes, ten at most. Each can be read with the pointer or the arrow keys, and says in words
// what it shows.

import { h, s } from "./elements.js";

const [WIDTH, HEIGHT] = [600, 136];

/** Where the reader's cursor is, by chart: a part of the width, from 0 to 1. */
const cursors = new Map();
let redraw = () => {};
/** How far back all charts go. */
let span_ms = 600_000;

/** Has charts go back as far as something is known, ten minutes at most. */
export function goBackTo(first_ms, now_ms) {
  const known = Math.max(0, now_ms - first_ms);
  span_ms = [1, 2, 5, 10].map((minutes) => minutes * 60_000).find((span) => span >= known) ?? 600_000;
}

/** Says what draws the page anew when a cursor moves. */
export function onCursor(callback) {
  redraw = callback;
}

/**
 * A figure with up to four curves.
 * `series`: what each is called, and its points; `format`: a value in words.
 */
export function chart({ id, title, series, format, now_ms, unit = "" }) {
  const shown = series.slice(0, 4);
  const from = now_ms - span_ms;
  const inside = shown.map(({ points }) => points.filter(({ at, value }) => at >= from && value !== null));
  const most = ceiling(Math.max(0, ...inside.flat().map(({ value }) => value)));
  const cursor = cursors.get(id);
  const at = cursor === undefined ? null : from + cursor * span_ms;
  const read = inside.map((points) => (at === null ? points.at(-1) : nearest(points, at)));
  const said = shown.map(({ label }, index) => `${label} ${valueOf(read[index], format)}`).join(", ");
  const x = (moment) => ((moment - from) / span_ms) * WIDTH;
  const y = (value) => HEIGHT - 2 - (value / most) * (HEIGHT - 16);
  const curves = inside.map((points, index) => curve(points, index, x, y));
  const svg = s("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", tabindex: 0, role: "img",
    "aria-label": `${title}, the last ${span_ms / 60_000} min, at most ${format(most)}. ${at === null ? "Now" : `${ago(now_ms - at)} ago`}: ${said}`,
    onpointermove: (event) => move(id, (event.clientX - event.currentTarget.getBoundingClientRect().left) / event.currentTarget.clientWidth),
    onpointerleave: () => move(id, undefined),
    onblur: () => move(id, undefined),
    onkeydown: (event) => step(id, event),
  },
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(most), y2: y(most) }),
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(most / 2), y2: y(most / 2) }),
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2 }),
    curves,
    at !== null && s("line", { class: "cursor", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT }));
  return h("figure", { class: "chart", "data-key": id },
    h("figcaption", {}, h("h3", {}, title),
      shown.length === 1 && h("span", { class: "now" }, valueOf(read[0], format), unit && h("small", {}, ` ${unit}`))),
    h("div", { class: "plot" }, h("span", { class: "most" }, format(most)), svg),
    h("div", { class: "ends" }, h("span", {}, `${span_ms / 60_000} min ago`), h("span", {}, at === null ? "now" : `${ago(now_ms - at)} ago`)),
    shown.length > 1 && h("ul", { class: "legend" }, shown.map(({ label }, index) => h("li", {},
      s("svg", { width: 18, height: 6, "aria-hidden": "true" }, s("line", { class: `curve s${index}`, x1: 0, x2: 18, y1: 3, y2: 3 })),
      label, h("span", { class: "value" }, valueOf(read[index], format))))));
}

/** A curve without anything around it. */
export function spark(points, now_ms) {
  const from = now_ms - span_ms;
  const inside = points.filter(({ at, value }) => at >= from && value !== null);
  const most = ceiling(Math.max(0, ...inside.map(({ value }) => value)));
  const x = (moment) => ((moment - from) / span_ms) * WIDTH;
  const y = (value) => 34 - (value / most) * 30;
  return s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} 36`, preserveAspectRatio: "none", "aria-hidden": "true" },
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: 35, y2: 35 }), curve(inside, 0, x, y, 35));
}

function curve(points, index, x, y, floor = HEIGHT - 2) {
  if (points.length === 0) return [];
  let path = "";
  let before = null;
  for (const { at, value } of points) {
    const gap = before === null || at - before > 12_000;
    path += `${gap ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = at;
  }
  const line = s("path", { class: `curve s${index}`, d: path });
  if (index > 0 || path.lastIndexOf("M") > 0) return [line];
  const area = `${path}L${x(points.at(-1).at).toFixed(1)} ${floor}L${x(points[0].at).toFixed(1)} ${floor}Z`;
  return [s("path", { class: "area", d: area }), line];
}

/** The next round number. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((round) => round >= value);
}

function nearest(points, at) {
  let best = null;
  for (const point of points) {
    if (best === null || Math.abs(point.at - at) < Math.abs(best.at - at)) best = point;
  }
  return best !== null && Math.abs(best.at - at) < 6000 ? best : undefined;
}

function valueOf(point, format) {
  return point === undefined ? "–" : format(point.value);
}

function ago(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function move(id, part) {
  if (part === undefined) cursors.delete(id);
  else cursors.set(id, Math.min(1, Math.max(0, part)));
  redraw();
}

function step(id, event) {
  const by = { ArrowLeft: -1 / 60, ArrowRight: 1 / 60, PageUp: -1 / 10, PageDown: 1 / 10 }[event.key];
  if (event.key === "Escape") move(id, undefined);
  if (by === undefined) return;
  event.preventDefault();
  move(id, (cursors.get(id) ?? 1) + by);
}
