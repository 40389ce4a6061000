// What is on the page, view by view. Each makes its elements of what is known now.

import { chart, spark } from "./charts.js";
import { sum } from "./data.js";
import { h } from "./elements.js";
import { meter, table, timeLeft } from "./tables.js";
import { LOADS, ROLES, beginning, bits, claim, kindOfDrop, list, millis, short, span, whole, words } from "./words.js";

/** A name as people call it, and the whole of it for whoever points at it. */
function who(data, name, calls_itself) {
  if (!name) return null;
  const label = data.state.labels[name];
  if (label) return h("span", { title: name }, label);
  if (calls_itself) return h("span", { title: name, class: "claim" }, claim(calls_itself), " ", h("span", { class: "mono soft" }, beginning(name)));
  return h("span", { title: name, class: "mono" }, beginning(name));
}

const plain = (data, name, calls_itself) => `${data.state.labels[name] ?? calls_itself ?? ""} ${name ?? ""}`;
const role = (key) => ROLES[key] ?? String(key);
const perSecond = (value) => short(value);

function alarmList(data) {
  const alarms = data.alarms;
  if (data.state.daemons.length === 0) return null;
  if (alarms.length === 0) return h("p", { class: "well" }, "No alarms.");
  return h("ul", { class: "alarms", "aria-label": "Alarms" }, alarms.map(({ level, found, advice, daemon }) => h("li", { class: level },
    h("span", { class: "sign" }, level === "problem" ? "Problem" : "Warning"),
    h("span", {}, h("strong", {}, `${role(daemon.status?.role ?? "daemon")} ${data.calledDaemon(daemon)}`), `: ${found}`),
    h("span", { class: "advice" }, advice))));
}

export function overview(data) {
  const { now_ms, daemons } = data.state;
  const up = daemons.filter(({ standing }) => standing === "up");
  const total = (values) => values.reduce((one, other) => one + (other ?? 0), 0);
  const routers = data.of("router");
  const drops = total(up.map((daemon) => data.rate(daemon.place, data.drops(daemon).map(({ figure }) => figure))));
  const carried = [...routers, ...data.of("waypoint")];
  const figures = [
    ["Daemons", `${up.length}`, daemons.length > up.length ? `of ${daemons.length}` : "up"],
    ["Forwarded", short(total(carried.map((daemon) => data.load(daemon)))), "PDU/s"],
    ["Traffic", ...split(bits(total(carried.map((daemon) => data.rate(daemon.place, ["counters.forwarded_bytes"])))))],
    ["Names here", whole(total(routers.map(({ status, left_out }) => list(status.attached).length + (left_out.attached ?? 0)))), "attached"],
    ["Flows", short(total(routers.map(({ status }) => status.flows))), "known"],
    ["Dropped", short(drops), "/s"],
  ];
  return [
    h("h1", {}, "Overview"),
    h("p", { class: "lead" }, daemons.length === 0 ? "No daemon of this user has a socket for status. Start one with --admin, and it shows here." : "What runs on this host, and whether it is well."),
    daemons.length > 0 && h("dl", { class: "figures" }, figures.map(([title, value, unit]) => h("div", {}, h("dt", {}, title), h("dd", {}, value, h("small", {}, unit))))),
    alarmList(data),
    daemons.length > 0 && h("h2", {}, "Daemons"),
    h("div", { class: "cards" }, daemons.map((daemon) => card(data, daemon, now_ms))),
    data.state.beyond > 0 && h("p", { class: "note" }, "There are more daemons than are shown."),
  ];
}

function split(text) {
  const at = text.lastIndexOf("\u202f");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function card(data, daemon, now_ms) {
  const { status, standing, place } = daemon;
  const load = LOADS[status?.role];
  const dropped = data.rate(place, data.drops(daemon).map(({ figure }) => figure));
  return h("article", { class: standing === "up" ? "card" : "card away", "data-key": place },
    h("header", {}, h("span", { class: `dot ${standing}`, role: "img", "aria-label": standing }), h("h3", { title: status?.name ?? place }, data.calledDaemon(daemon)), h("span", { class: "what" }, role(status?.role ?? ""))),
    h("p", { class: "place" }, standing === "up" ? `${status.address ?? place} · up ${span(status.uptime_s)}` : daemon.problem ?? "asked"),
    load && h("p", { class: "load" }, perSecond(data.load(daemon)), h("small", {}, load.unit), load.bytes && h("small", {}, bits(data.rate(place, [load.bytes]))), h("span", { class: "right" }, `${short(dropped ?? 0)} dropped/s`)),
    load && spark(data.rates(place, load.figures), now_ms));
}

export function traffic(data) {
  const { now_ms } = data.state;
  const charts = [];
  const carriers = data.told.filter(({ status }) => LOADS[status.role]);
  for (const daemon of carriers) {
    const { place, status } = daemon;
    const load = LOADS[status.role];
    const called = `${role(status.role)} ${data.calledDaemon(daemon)}`;
    const mine = [chart({ id: `load ${place}`, title: `${words(load.does)}`, unit: load.unit, now_ms, format: perSecond, series: [{ label: load.does, points: data.rates(place, load.figures) }] })];
    if (load.bytes) mine.push(chart({ id: `bytes ${place}`, title: "bits", now_ms, format: bits, series: [{ label: "bits", points: data.rates(place, [load.bytes]) }] }));
    mine.push(dropChart(data, daemon, now_ms));
    mine.push(...latency(data, daemon, now_ms));
    charts.push(h("section", { "data-key": place }, h("h2", {}, called), h("div", { class: "charts" }, mine)));
  }
  const all = carriers.map((daemon) => data.rates(daemon.place, LOADS[daemon.status.role].figures));
  return [
    h("h1", {}, "Traffic"),
    h("p", { class: "lead" }, "What each daemon did, dropped and took time for, of ten minutes at most. Point at a chart, or use the arrow keys on it, to read a moment."),
    carriers.length > 1 && h("div", {}, chart({ id: "load of all", title: "all daemons", unit: "/s", now_ms, format: perSecond, series: [{ label: "all", points: sum(all) }] })),
    charts.length > 0 ? charts : h("p", { class: "note" }, "No daemon that carries anything runs here."),
    h("h2", {}, "Drops by reason"),
    dropTable(data),
  ];
}

function dropChart(data, { place, ...daemon }, now_ms) {
  const drops = data.drops({ place, ...daemon });
  const moving = drops.map((drop) => ({ ...drop, points: data.rates(place, [drop.figure]) }));
  const weight = ({ points }) => points.reduce((total, { value }) => total + (value ?? 0), 0);
  const most = moving.filter((drop) => weight(drop) > 0).sort((one, other) => weight(other) - weight(one)).slice(0, 4);
  const series = most.length > 0 ? most.map(({ reason, points }) => ({ label: words(reason), points })) : [{ label: "dropped", points: data.rates(place, drops.map(({ figure }) => figure)) }];
  return chart({ id: `drops ${place}`, title: "dropped", unit: "/s", now_ms, format: perSecond, series });
}

/** How long things took, of daemons that say so. */
function latency(data, { place, status }, now_ms) {
  const charts = [];
  const waited = (title, key, count) => {
    const waits = data.rates(place, [`counters.${key}.sum_ms`]);
    const counts = data.rates(place, count);
    if (waits.length === 0) return;
    const points = waits.map(({ at, value }, index) => ({ at, value: counts[index]?.value > 0 && value !== null ? value / counts[index].value : null }));
    charts.push(chart({ id: `${key} ${place}`, title, now_ms, format: millis, series: [{ label: title, points }] }));
  };
  if (status.role === "rib") {
    waited("a look-up waits", "look_ups_waited", ["counters.lookups_found", "counters.lookups_absent"]);
    waited("an order waits", "orders_waited", ["counters.publishes_stored"]);
  }
  const micros = (title, key) => {
    const of = (quantile) => ({ label: quantile, points: data.values(place, `${key}.${quantile}`).map(({ at, value }) => ({ at, value: value === null ? null : value / 1000 })) });
    if (status[key]) charts.push(chart({ id: `${key} ${place}`, title, now_ms, format: millis, series: [of("p50"), of("p99")] }));
  };
  micros("a route is handed out", "export_latency_us");
  micros("a round takes", "round_latency_us");
  const peers = [...list(status.connections), ...list(status.sessions)].map(({ peer }) => String(peer));
  const trips = peers.map((peer) => ({ label: data.called(peer), points: data.values(place, `round_trips.${peer.slice(0, 10)}`) }));
  const known = trips.filter(({ points }) => points.length > 0);
  if (known.length > 0) charts.push(chart({ id: `trips ${place}`, title: "round trips", now_ms, format: millis, series: known }));
  return charts;
}

function dropTable(data) {
  const rows = data.told.flatMap((daemon) => data.drops(daemon).filter(({ count }) => count > 0).map((drop) => ({ daemon, ...drop, rate: data.rate(daemon.place, [drop.figure]) })));
  rows.sort((one, other) => (other.rate ?? 0) - (one.rate ?? 0) || other.count - one.count);
  const kind = { usual: "usual", attack: "attack?" };
  return table({ id: "drops", caption: "Drops by reason", none: "Nothing was dropped.", rows, columns: [
    { title: "Reason", show: ({ reason }) => h("span", {}, words(reason), " ", kindOfDrop(reason) && h("span", { class: `tag ${kindOfDrop(reason)}` }, kind[kindOfDrop(reason)])), by: ({ reason }) => words(reason) },
    { title: "Daemon", show: ({ daemon }) => `${role(daemon.status.role)} ${data.calledDaemon(daemon)}`, by: ({ daemon }) => data.calledDaemon(daemon) },
    { title: "Of", show: ({ place }) => words(place), by: ({ place }) => words(place) },
    { title: "A second", number: true, show: ({ rate }) => short(rate), by: ({ rate }) => rate ?? 0 },
    { title: "In all", number: true, show: ({ count }) => whole(count), by: ({ count }) => count },
  ] });
}

export function sessions(data) {
  const rows = [];
  let left_out = 0;
  for (const daemon of data.told) {
    const { status } = daemon;
    left_out += daemon.left_out.sessions ?? 0;
    for (const session of list(status.sessions)) rows.push({ daemon, kind: "hop", ...session });
    for (const connection of list(status.connections)) rows.push({ daemon, kind: "end to end", role: "node", ...connection, largest_datagram: connection.datagram_len });
  }
  return [
    h("h1", {}, "Sessions"),
    h("p", { class: "lead" }, "With whom the daemons of this host talk. A hop’s session carries what others send; one from end to end is read by its two names alone."),
    table({ id: "sessions", caption: "Sessions", none: "Nobody is connected.", rows, left_out, columns: [
      { title: "Peer", show: (it) => who(data, it.peer, it.calls_itself), by: (it) => plain(data, it.peer, it.calls_itself) },
      { title: "Is", show: (it) => role(it.role), by: (it) => role(it.role) },
      { title: "With", show: ({ daemon }) => data.calledDaemon(daemon), by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "Kind", show: (it) => it.kind, by: (it) => it.kind },
      { title: "Address", show: (it) => it.address && h("span", { class: "mono" }, it.address), by: (it) => it.address },
      { title: "Over", show: (it) => it.transport?.toUpperCase(), by: (it) => it.transport },
      { title: "Round trip", number: true, show: (it) => (typeof it.round_trip_ms === "number" ? millis(it.round_trip_ms) : null), by: (it) => it.round_trip_ms },
      { title: "Largest", number: true, show: (it) => (it.largest_datagram ? `${whole(it.largest_datagram)} B` : null), by: (it) => it.largest_datagram },
      { title: "Lost", number: true, show: (it) => (it.sent_packets ? `${((100 * it.lost_packets) / it.sent_packets).toFixed(1)} %` : null), by: (it) => (it.sent_packets ? it.lost_packets / it.sent_packets : null) },
      { title: "Since", number: true, show: (it) => (it.age_s === undefined ? null : span(it.age_s)), by: (it) => it.age_s },
      { title: "Standing", show: (it) => it.standing, by: (it) => it.standing },
    ] }),
  ];
}

export function flows(data) {
  const rows = data.of("router").flatMap((daemon) => list(daemon.status.newest_flows).map((flow) => ({ daemon, ...flow })));
  const groups = data.of("router").flatMap((daemon) => list(daemon.status.groups).map((group) => ({ daemon, ...group })));
  const name = (title, key) => ({ title, show: (it) => who(data, it[key]), by: (it) => plain(data, it[key]) });
  return [
    h("h1", {}, "Flows"),
    h("p", { class: "lead" }, "Who sends to whom, by way of whom: of each router the newest, up to 64. A flow stays listed for a while after its last PDU."),
    table({ id: "flows", caption: "Flows", none: "No router here has seen a flow.", rows, columns: [
      name("From", "source"), name("To", "destination"), name("Next hop", "next"),
      { title: "Router", show: ({ daemon }) => data.calledDaemon(daemon), by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "Looked into again", number: true, show: (it) => (it.expires_in_s === 0 ? "next PDU" : `in ${span(it.expires_in_s)}`), by: (it) => it.expires_in_s },
    ] }),
    groups.length > 0 && h("h2", {}, "Groups"),
    groups.length > 0 && table({ id: "groups", caption: "Groups", none: "", rows: groups, columns: [
      name("Group", "name"),
      { title: "Router", show: ({ daemon }) => data.calledDaemon(daemon), by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "Members", number: true, show: (it) => whole(it.members), by: (it) => it.members },
      { title: "Senders", number: true, show: (it) => whole(it.senders), by: (it) => it.senders },
      { title: "Branches", number: true, show: (it) => whole(it.branches), by: (it) => it.branches },
      { title: "Toward the root", show: (it) => (it.is_root ? "is the root" : who(data, it.toward_root)), by: (it) => plain(data, it.toward_root) },
    ] }),
  ];
}

export function certificates(data) {
  const rows = [];
  for (const daemon of data.told) {
    const { status } = daemon;
    const add = (kind, about, left_s, whole_s) => typeof left_s === "number" && rows.push({ daemon, kind, about, left_s, whole_s });
    add("Own statement", status.own_statement?.says, status.own_statement?.expires_in_s, 600);
    for (const word of list(status.delegations)) add("Hands traffic to", word.says, word.expires_in_s, 600);
    for (const name of list(status.attached)) add("Attached name", name.name, name.expires_in_s, 600);
    for (const grant of list(status.some_grants)) add("May send", grant.name, grant.expires_in_s, 600);
    add("Membership", status.membership?.domain, status.membership?.expires_in_s, 30 * 86400);
    add("Border of its domain", status.domain?.name, status.domain?.border_expires_in_s, 30 * 86400);
    for (const it of list(status.neighbours)) if (it.may_carry) add("May carry for", it.domain, it.may_carry - data.state.now_ms / 1000, 30 * 86400);
    for (const it of list(status.stamps)) add("Capability for", it.peer, it.expires_in_s, 600);
    add("Lease", status.name, status.lease_expires_in_s, 600);
  }
  // A lease that was seen longer than usual is as long as it was.
  for (const row of rows) row.whole_s = Math.max(row.whole_s, row.left_s);
  rows.sort((one, other) => one.left_s / one.whole_s - other.left_s / other.whole_s);
  const about = (text) => (text?.length === 52 ? who(data, text) : String(text ?? "").replace(/[a-z2-7]{52}/, (name) => data.called(name)));
  return [
    h("h1", {}, "Certificates"),
    h("p", { class: "lead" }, "Until when each word holds. Leases are renewed by themselves at half their time; what a domain gives, somebody has to give again."),
    table({ id: "certificates", caption: "Certificates and the time they have left", none: "No daemon here has told of one.", rows, columns: [
      { title: "What", show: (it) => it.kind, by: (it) => it.kind },
      { title: "About", show: (it) => about(it.about), by: (it) => plain(data, it.about) },
      { title: "Daemon", show: ({ daemon }) => `${role(daemon.status.role)} ${data.calledDaemon(daemon)}`, by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "Time left", show: (it) => timeLeft(it.left_s, it.whole_s), by: (it) => it.left_s },
    ] }),
  ];
}

export function directory(data, look) {
  const ribs = data.of("rib");
  const fills = data.told.flatMap((daemon) => Object.entries(daemon.status.tables ?? {}).map(([name, fill]) => ({ daemon, name, ...fill })));
  const known = data.of("router").flatMap((daemon) => list(daemon.status.ribs).map((rib) => ({ daemon, ...rib })));
  const stores = ribs.map((daemon) => {
    const { status } = daemon;
    const facts = [
      ["Names", whole(status.stored_names)], ["Full", status.store ? `${status.store.full_percent} %` : "–"],
      ["Of strangers", whole(status.store?.strangers?.names)], ["Subscriptions", whole(status.subscriptions)],
      ["Log", status.log ? `epoch ${whole(status.log.epoch)}` : "none"], ["Removals", whole(status.removals)],
    ];
    return h("section", { "data-key": daemon.place }, h("h2", {}, `RIB ${data.calledDaemon(daemon)}`),
      h("dl", { class: "figures" }, facts.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))), look(daemon));
  });
  return [
    h("h1", {}, "Directory and caches"),
    h("p", { class: "lead" }, "What RIBs hold, name by name, what routers remember of it, and whether what RIBs say holds. A full cache is no fault: what is not used makes room."),
    stores,
    known.length > 0 && h("h2", {}, "RIBs as routers see them"),
    known.length > 0 && table({ id: "ribs", caption: "RIBs as routers see them", none: "", rows: known, columns: [
      { title: "RIB", show: (it) => who(data, it.name) ?? h("span", { class: "mono" }, it.address), by: (it) => plain(data, it.name) },
      { title: "Router", show: ({ daemon }) => data.calledDaemon(daemon), by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "State", show: (it) => (it.connected ? "connected" : h("span", { class: "bad" }, "away")), by: (it) => String(it.connected) },
      { title: "Proven", number: true, show: (it) => whole(it.proven), by: (it) => it.proven },
      { title: "Suspected of", show: (it) => it.suspected_of && h("span", { class: "bad" }, it.suspected_of), by: (it) => it.suspected_of },
      { title: "Faults", number: true, show: (it) => whole(Object.values(it.faults ?? {}).reduce((one, other) => one + other, 0)), by: (it) => it.address },
      { title: "Names in its log", number: true, show: (it) => whole(it.log_names), by: (it) => it.log_names },
    ] }),
    h("h2", {}, "Tables"),
    table({ id: "tables", caption: "How full tables are", none: "No daemon here has told of a table.", rows: fills, columns: [
      { title: "Table", show: ({ name }) => words(name), by: ({ name }) => words(name) },
      { title: "Daemon", show: ({ daemon }) => `${role(daemon.status.role)} ${data.calledDaemon(daemon)}`, by: ({ daemon }) => data.calledDaemon(daemon) },
      { title: "Entries", number: true, show: ({ used }) => whole(used), by: ({ used }) => used ?? 0 },
      { title: "Bound", number: true, show: ({ bound }) => whole(bound), by: ({ bound }) => bound ?? 0 },
      { title: "Full", show: ({ used, bound }) => (bound ? meter(used / bound, percent(used / bound)) : null), by: ({ used, bound }) => (bound ? used / bound : 0) },
    ] }),
  ];
}

function percent(part) {
  return part > 0 && part < 0.001 ? "< 0.1 %" : `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;
}

export { plain, role, who };
