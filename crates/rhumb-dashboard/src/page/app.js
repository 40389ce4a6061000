// The page: signs in, asks every two seconds while it is seen, and shows the view that the address
// names.

import { goBackTo, onCursor } from "./charts.js";
import { Data } from "./data.js";
import { h, morph } from "./elements.js";
import { Picture, network } from "./graph.js";
import { names } from "./names.js";
import { Problem, begin, end, isBegun, tokenInAddress } from "./session.js";
import { onTable, table } from "./tables.js";
import { trace } from "./trace.js";
import { exchange, waypoints } from "./trades.js";
import { certificates, directory, flows, overview, role, sessions, traffic } from "./views.js";
import { short, span } from "./words.js";

const VIEWS = [
  { id: "overview", title: "Overview", show: overview },
  { id: "network", title: "Network", show: pictured },
  { id: "traffic", title: "Traffic", show: traffic },
  { id: "sessions", title: "Sessions", show: sessions },
  { id: "flows", title: "Flows", show: flows, of: ["router"] },
  { id: "certificates", title: "Certificates", show: certificates },
  { id: "directory", title: "Directory", show: (data) => directory(data, (daemon) => names(data, daemon, draw)), of: ["rib", "router"] },
  { id: "waypoints", title: "Waypoints", show: waypoints, of: ["waypoint", "keyserver"] },
  { id: "exchange", title: "Exchange", show: exchange, of: ["exchange", "member"] },
  { id: "trace", title: "Way to a name", show: (data) => trace(data, draw) },
];

const INTERVAL_MS = 2000;
const [main, nav, pulse, leave] = ["main", "views", "pulse", "leave"].map((id) => document.getElementById(id));
const data = new Data();
const picture = new Picture(() => draw());
let problem = null;
let isSignedIn = false;
let timer = null;
let seen = null;

function current() {
  const id = location.hash.slice(1);
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0];
}

/** Brings the page to what is known. */
function draw() {
  if (!isSignedIn) return;
  goBackTo(data.first_ms, data.state.now_ms);
  const view = current();
  const isThere = ({ of }) => !of || data.of(...of).length > 0;
  const shown = VIEWS.filter((it) => isThere(it) || it === view);
  const alarms = data.alarms.length;
  fill(nav, shown.map((it) => h("a", { href: `#${it.id}`, "data-key": it.id, "aria-current": it === view ? "page" : null }, it.title,
    it.id === "overview" && alarms > 0 && h("span", { class: "count", "aria-label": `${alarms} alarms` }, String(alarms)))));
  fill(main, [h("div", { "data-key": view.id }, shownOf(view))]);
  if (view !== seen) {
    seen = view;
    nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
  document.title = `${alarms > 0 ? `(${alarms}) ` : ""}${view.title} · Rhumb`;
  showPulse();
}

/** A view, or that it cannot be shown: what one daemon tells must not take the page away. */
function shownOf(view) {
  try {
    return view.show(data);
  } catch (caught) {
    console.error(caught);
    return [h("h1", {}, view.title), h("p", { class: "note bad" }, "A daemon tells something that this page does not understand, perhaps of another version: rhumb status shows it.")];
  }
}

/** Makes the inside of an element like these. */
function fill(element, children) {
  const next = element.cloneNode(false);
  for (const child of children) next.append(child);
  morph(element, next);
}

function showPulse() {
  pulse.dataset.is = problem ? "lost" : "live";
  const since = Math.round((performance.now() - data.asked_at) / 1000);
  const text = problem ?? (since < 4 ? "live" : `${since} s ago`);
  if (pulse.textContent !== text) pulse.textContent = text;
}

function pictured() {
  const shown = network(data);
  picture.show(shown);
  const chosen = shown.nodes.find(({ id }) => id === picture.chosen);
  const called = new Map(shown.nodes.map((node) => [node.id, node.label]));
  return [
    h("h1", {}, "Network"),
    h("p", { class: "lead" }, "Who talks with whom, as the daemons of this host see it. Lines are sessions; those that carry something are wider the more it is."),
    h("div", { class: "network" },
      h("figure", { class: "picture" }, picture.element.isConnected ? picture.element.cloneNode(false) : picture.element,
        h("figcaption", { class: "key" }, h("span", {}, "● router"), h("span", {}, "■ RIB"), h("span", {}, "○ node"), h("span", {}, "in colour: of this host"), shown.more > 0 && h("span", {}, `${shown.more} more are not shown`))),
      h("aside", { class: "facts", "aria-live": "polite", "aria-label": "Whoever is chosen" }, chosen ? facts(chosen, shown, called) : h("p", { class: "soft" }, "Choose somebody to see more."))),
    h("h2", {}, "The same as a table"),
    table({ id: "links", caption: "Who talks with whom", none: "Nobody is connected.", rows: shown.links, columns: [
      { title: "One", show: (it) => named(it.one, called), by: (it) => called.get(it.one) },
      { title: "Other", show: (it) => named(it.other, called), by: (it) => called.get(it.other) },
      { title: "Over", show: (it) => it.transport?.toUpperCase(), by: (it) => it.transport },
      { title: "Datagrams a second", number: true, show: (it) => (it.rate === null ? null : short(it.rate)), by: (it) => it.rate },
    ] }),
  ];
}

function named(id, called) {
  return h("span", { title: id }, called.get(id) ?? id);
}

function facts({ id, label, isClaim, role: of, ours, facts: { address, load, uptime_s, place } }, { links }, called) {
  const beside = links.filter(({ one, other }) => one === id || other === id);
  const rows = [
    ["Is", role(of)], ["Name", h("span", { class: "mono" }, id)], ["Address", address],
    ["Up for", uptime_s === undefined ? null : span(uptime_s)], ["Does", load ? `${short(load[0])} ${load[1]}` : null],
    ["Asked at", ours ? place : null], ["Talks with", beside.map(({ one, other }) => called.get(one === id ? other : one)).join(", ")],
  ];
  return [h("h3", {}, isClaim ? `calls itself ${label}` : label),
    h("dl", {}, rows.filter(([, value]) => value).map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]))];
}

/** Asks, and asks again while the page is seen. */
async function follow() {
  clearTimeout(timer);
  try {
    await data.refresh();
    problem = null;
    isSignedIn = true;
    leave.hidden = false;
  } catch (caught) {
    if (caught instanceof Problem && caught.status === 401) return signIn();
    if (!(caught instanceof Problem)) throw caught;
    problem = caught.message;
    if (!isSignedIn) return signIn(problem);
  }
  if (!document.hidden) timer = setTimeout(follow, INTERVAL_MS);
  draw();
}

function signIn(said = null) {
  isSignedIn = false;
  leave.hidden = true;
  clearTimeout(timer);
  nav.replaceChildren();
  pulse.textContent = "";
  const input = h("input", { type: "password", name: "token", autocomplete: "off", "aria-label": "Token", required: true });
  const status = h("p", { class: "bad", role: "alert" }, said ?? "");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await begin(input.value.trim());
      await follow();
    } catch (caught) {
      status.textContent = caught.message;
      input.select();
    }
  };
  main.replaceChildren(h("div", { class: "sign-in" }, h("h1", {}, "Who asks?"),
    h("p", { class: "soft" }, "The dashboard shows who talks with whom, so it asks for its token: that of the address which rhumb dashboard printed, or of its --token-file."),
    h("form", { onsubmit: submit }, input, h("button", { class: "main" }, "Show it")), status));
  input.focus();
}

function theme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => { root.dataset.theme = localStorage.getItem("rhumb-theme") ?? (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  document.getElementById("theme").onclick = () => {
    localStorage.setItem("rhumb-theme", root.dataset.theme === "dark" ? "light" : "dark");
    apply();
  };
  apply();
}

function moveOn() {
  draw();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

async function start() {
  theme();
  onCursor(draw);
  onTable(draw);
  leave.onclick = async () => {
    await end();
    signIn();
  };
  document.getElementById("skip").onclick = (event) => {
    event.preventDefault();
    main.focus();
  };
  addEventListener("hashchange", async () => {
    const token = tokenInAddress();
    if (token === null) return isSignedIn ? moveOn() : undefined;
    await enter(token);
  });
  document.addEventListener("visibilitychange", () => !document.hidden && isSignedIn && follow());
  setInterval(() => isSignedIn && showPulse(), 1000);
  const token = tokenInAddress();
  if (token !== null) await enter(token);
  else if (isBegun()) await follow();
  else signIn();
}

async function enter(token) {
  try {
    await begin(token);
    await follow();
  } catch (caught) {
    signIn(caught.message);
  }
}

start();
