// The network as a picture: who is there and who talks with whom, laid out by forces that settle.
// The tables beside it say the same in words.

import { h, s } from "./elements.js";
import { LOADS, ROLES, beginning, claim, list } from "./words.js";

/** What carries fewer datagrams a second than this is drawn narrow, even where nobody carries more. */
const QUIET = 100;
/** More could not be told apart. */
const MOST = 120;

/** Names and sessions of all daemons: `nodes` by id, and `links` between ids. */
export function network(data) {
  const nodes = new Map();
  const links = new Map();
  const node = (id, facts) => {
    if (typeof id !== "string") return;
    const known = nodes.get(id) ?? { id, role: "", label: beginning(id), isClaim: false, ours: false, facts: {} };
    nodes.set(id, { ...known, ...facts, facts: { ...known.facts, ...facts.facts } });
  };
  // Each end counts what it sends: what a link carries is what both do.
  const link = (one, other, { transport = null, sent = null } = {}) => {
    if (one === other || typeof other !== "string") return;
    const key = one < other ? `${one} ${other}` : `${other} ${one}`;
    const known = links.get(key) ?? { key, one, other, transport: null, rate: null };
    const rate = sent === null ? known.rate : (known.rate ?? 0) + sent;
    links.set(key, { ...known, transport: transport ?? known.transport, rate });
  };
  for (const daemon of data.state.daemons) enter(data, daemon, node, link);
  const all = [...nodes.values()].sort((one, other) => Number(other.ours) - Number(one.ours));
  const kept = new Set(all.slice(0, MOST).map(({ id }) => id));
  return {
    nodes: all.filter(({ id }) => kept.has(id)),
    links: [...links.values()].filter(({ one, other }) => kept.has(one) && kept.has(other)),
    more: Math.max(0, all.length - MOST),
  };
}

function enter(data, daemon, node, link) {
  const { status, place, standing } = daemon;
  const id = status?.name?.length === 52 ? status.name : place;
  const load = LOADS[status?.role];
  const rate = data.load(daemon);
  node(id, {
    role: String(status?.role ?? ""), label: String(data.calledDaemon(daemon)), isClaim: false, ours: true, away: standing !== "up",
    facts: { address: status?.address, load: rate === null || !load ? null : [rate, load.unit], uptime_s: status?.uptime_s, place },
  });
  for (const session of list(status?.sessions)) {
    peer(data, node, session.peer, session);
    link(id, session.peer, { transport: session.transport, sent: sessionRate(data, daemon, session) });
  }
  if (status?.role === "node" && status.router) {
    peer(data, node, status.router, { role: "router", address: status.router_address });
    link(id, status.router, { transport: status.router_transport, sent: data.rate(place, ["traffic.sent"]) });
  }
  for (const member of list(status?.members)) {
    if (!member.site) continue;
    node(`site ${member.site}`, { role: "member", label: member.site, facts: { address: member.address } });
    link(id, `site ${member.site}`);
  }
  if (status?.pair?.name) {
    peer(data, node, status.pair.name, { role: "exchange", address: status.pair.address });
    link(id, status.pair.name);
  }
  for (const parent of list(status?.parents)) {
    if (!parent.name) continue;
    peer(data, node, parent.name, { role: "rib", address: parent.address });
    link(id, parent.name);
  }
}

/** Somebody that a daemon says it talks with: by the book's label, or what it calls itself. */
function peer(data, node, name, { role, calls_itself, address }) {
  const label = data.state.labels[name];
  const claimed = label === undefined && calls_itself;
  node(name, {
    ...(data.state.daemons.some(({ status }) => status?.name === name) ? {} : { role: String(role ?? ""), label: label ?? (calls_itself ? claim(calls_itself) : beginning(name)), isClaim: Boolean(claimed) }),
    facts: address ? { address } : {},
  });
}

/** How many datagrams a daemon sends on a session a second, where it counts that. */
function sessionRate(data, daemon, session) {
  const before = data.before.get(`${daemon.place} ${session.peer}`);
  const { sent_datagrams } = session;
  if (before === undefined || typeof sent_datagrams !== "number" || daemon.answered_at_ms <= before.at) return null;
  // A session that was renewed counts anew.
  const sent = sent_datagrams >= before.sent ? sent_datagrams - before.sent : sent_datagrams;
  return (sent * 1000) / (daemon.answered_at_ms - before.at);
}

/** The picture, which keeps where everybody is while the data change. */
export class Picture {
  constructor(onChoose) {
    this.places = new Map();
    this.heat = 0;
    this.onChoose = onChoose;
    this.chosen = null;
    this.shown = { nodes: [], links: [] };
    this.linkLayer = s("g", {});
    this.nodeLayer = s("g", {});
    this.width = 720;
    this.height = 520;
    this.svg = s("svg", { role: "group", "aria-label": "The network. The table below says the same." }, this.linkLayer, this.nodeLayer);
    this.element = h("div", { "data-own": true, "data-key": "picture" }, this.svg);
    this.elements = new Map();
  }

  /** Shows a network; whoever is new begins near whom it talks with. */
  show(network) {
    this.measure();
    const before = new Set(this.places.keys());
    const now = new Set(network.nodes.map(({ id }) => id));
    for (const id of before) if (!now.has(id)) this.places.delete(id);
    network.nodes.forEach(({ id }, index) => {
      if (this.places.has(id)) return;
      const beside = network.links.map((link) => (link.one === id ? link.other : link.other === id ? link.one : null));
      const near = beside.map((other) => this.places.get(other)).find((place) => place);
      const angle = index * 2.399963;
      const [x, y] = near ? [near.x, near.y] : [this.width / 2, this.height / 2];
      const distance = near ? 50 : 30 + 22 * Math.sqrt(index);
      this.places.set(id, { x: x + distance * Math.cos(angle), y: y + distance * Math.sin(angle) });
      this.heat = 1;
    });
    const linked = network.links.map(({ key }) => key).join();
    if (linked !== this.linked || before.size !== now.size) this.heat = 1;
    this.linked = linked;
    this.shown = network;
    this.build();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      while (this.heat > 0.01) this.settle();
      this.place();
    } else if (!this.running) {
      this.running = true;
      requestAnimationFrame(() => this.frame());
    } else {
      this.place();
    }
  }

  /** One unit is one point of the screen, so that words are as large as elsewhere. */
  measure() {
    const [width, height] = [this.svg.clientWidth || this.width, this.svg.clientHeight || this.height];
    if (width === this.width && height === this.height) return;
    for (const place of this.places.values()) {
      place.x *= width / this.width;
      place.y *= height / this.height;
    }
    [this.width, this.height, this.heat] = [width, height, 1];
  }

  frame() {
    this.measure();
    for (let step = 0; step < 3 && this.heat > 0.01; step += 1) this.settle();
    this.place();
    this.running = this.heat > 0.01 && this.svg.isConnected;
    if (this.running) requestAnimationFrame(() => this.frame());
  }

  /** One step of the forces: all keep apart, who talks together is drawn together, to the middle. */
  settle() {
    const all = this.shown.nodes.map(({ id }) => this.places.get(id));
    const [width, height] = [this.width, this.height];
    const apart = Math.min(190, 0.8 * Math.sqrt((width * height) / (all.length + 1)));
    // To the middle, and less so along the longer side.
    const [across, along] = width > height ? [height / width, 1] : [1, width / height];
    for (const place of all) [place.dx, place.dy] = [(width / 2 - place.x) * 0.014 * across, (height / 2 - place.y) * 0.014 * along];
    for (let one = 0; one < all.length; one += 1) {
      for (let other = one + 1; other < all.length; other += 1) push(all[one], all[other], apart);
    }
    for (const { one, other } of this.shown.links) pull(this.places.get(one), this.places.get(other), apart);
    for (const place of all) {
      const length = Math.hypot(place.dx, place.dy);
      const step = Math.min(length, 24 * this.heat) / (length || 1);
      place.x = clamp(place.x + place.dx * step, 48, width - 48);
      place.y = clamp(place.y + place.dy * step, 28, height - 56);
    }
    this.heat *= 0.985;
  }

  build() {
    const most = Math.max(QUIET, ...this.shown.links.map(({ rate }) => rate ?? 0));
    this.linkLayer.replaceChildren(...this.shown.links.flatMap((link) => {
      const isBusy = link.rate !== null && link.rate >= 0.5;
      const width = isBusy ? 1.5 + 6 * Math.sqrt(link.rate / most) : 1.25;
      const line = s("line", { class: isBusy ? "link busy" : "link", "stroke-width": width.toFixed(2) });
      const moving = width > 2.5 && s("line", { class: "flowing" });
      this.elements.set(link.key, [line, moving].filter(Boolean));
      return [line, moving].filter(Boolean);
    }));
    const existing = new Map([...this.nodeLayer.children].map((child) => [child.dataset.id, child]));
    for (const node of this.shown.nodes) {
      const element = existing.get(node.id) ?? this.newNode(node);
      existing.delete(node.id);
      this.dress(element, node);
      this.elements.set(node.id, [element]);
    }
    for (const gone of existing.values()) gone.remove();
  }

  newNode(node) {
    const element = s("g", {
      "data-id": node.id, tabindex: 0, role: "button",
      onclick: () => this.choose(node.id),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.choose(node.id);
      },
    });
    this.nodeLayer.append(element);
    return element;
  }

  dress(element, node) {
    const isChosen = node.id === this.chosen;
    const role = ROLES[node.role] ?? node.role;
    const classes = ["peer", /^[a-z]+$/.test(node.role) ? node.role : "", node.ours ? "ours" : "", node.away ? "away" : "", isChosen ? "chosen" : ""];
    element.setAttribute("class", classes.filter(Boolean).join(" "));
    element.setAttribute("aria-label", `${role} ${node.label}${node.away ? ", away" : ""}`);
    element.setAttribute("aria-pressed", String(isChosen));
    const [outer, inner] = shapes(node.role);
    element.replaceChildren(outer, inner,
      s("text", { y: 32, class: node.isClaim ? "claim" : null }, cut(node.label)),
      s("text", { class: "role", y: 46 }, role));
  }

  choose(id) {
    this.chosen = this.chosen === id ? null : id;
    this.build();
    this.place();
    this.onChoose();
  }

  place() {
    for (const { id } of this.shown.nodes) {
      const { x, y } = this.places.get(id);
      this.elements.get(id)?.[0].setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    }
    for (const { key, one, other } of this.shown.links) {
      const [from, to] = [this.places.get(one), this.places.get(other)];
      for (const line of this.elements.get(key) ?? []) {
        line.setAttribute("x1", from.x.toFixed(1));
        line.setAttribute("y1", from.y.toFixed(1));
        line.setAttribute("x2", to.x.toFixed(1));
        line.setAttribute("y2", to.y.toFixed(1));
      }
    }
  }
}

/** What tells a role by its form: what is seen, behind it a halo. */
function shapes(role) {
  const form = (attributes) => {
    if (role === "rib" || role === "keyserver") return s("rect", { x: -11, y: -11, width: 22, height: 22, rx: 4, ...attributes });
    if (role === "waypoint") return s("path", { d: "M0-14L14 0 0 14-14 0z", ...attributes });
    if (role === "exchange") return s("path", { d: "M-13 0l6.500-11h13L13 0 6.500 11h-13z", ...attributes });
    return s("circle", { r: role === "router" ? 13 : 8, ...attributes });
  };
  return [form({ class: "halo" }), form({ class: "shape" })];
}

function push(one, other, apart) {
  let [x, y] = [one.x - other.x, one.y - other.y];
  if (x === 0 && y === 0) [x, y] = [0.1, 0.1];
  const distance = Math.max(12, Math.hypot(x, y));
  const force = (apart * apart * 0.16) / (distance * distance);
  one.dx += (x / distance) * force * 10;
  one.dy += (y / distance) * force * 10;
  other.dx -= (x / distance) * force * 10;
  other.dy -= (y / distance) * force * 10;
}

function pull(one, other, apart) {
  const [x, y] = [other.x - one.x, other.y - one.y];
  const distance = Math.hypot(x, y) || 1;
  const force = ((distance - apart) / distance) * 0.06;
  one.dx += x * force;
  one.dy += y * force;
  other.dx -= x * force;
  other.dy -= y * force;
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function cut(text) {
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}
