// Waypoints with their accounts and key servers, and the two servers of an exchange with its
// members.

import { chart } from "./charts.js";
import { h } from "./elements.js";
import { table } from "./tables.js";
import { role } from "./views.js";
import { bytes, list, millis, short, span, whole, words } from "./words.js";

const figures = (facts) => h("dl", { class: "figures" }, facts.map(([title, value, unit]) => h("div", {}, h("dt", {}, title), h("dd", {}, value, unit && h("small", {}, unit)))));

export function waypoints(data) {
  const all = data.told.filter(({ status }) => Array.isArray(status.accounts));
  const accounts = all.flatMap((daemon) => list(daemon.status.accounts).map((account) => ({ daemon, ...account })));
  const keyservers = data.of("keyserver");
  return [
    h("h1", {}, "Waypoints"),
    h("p", { class: "lead" }, "Who sent how much through waypoints here, on account, and whether revocations reach them."),
    all.map((daemon) => {
      const { status, place } = daemon;
      const follows = status.revocations;
      return h("section", { "data-key": place }, h("h2", {}, `${role(status.role)} ${status.address ?? place}`),
        figures([
          ["Forwarded", short(data.load(daemon)), status.role === "waypoint" ? "packets/s" : "PDU/s"],
          ["Carried", bytes(status.counters?.forwarded_bytes)],
          ["Dropped", whole(status.counters?.dropped_packets), "packets"],
          ["Epochs", String(status.epochs ?? "").replaceAll(",", ", ") || "–"],
          ["Revocations", follows ? whole(follows.in_force) : "–", follows ? (follows.is_current ? "current" : "behind") : "not followed"],
        ]));
    }),
    h("h2", {}, "Accounts"),
    table({ id: "accounts", caption: "Accounts", none: "Nobody has sent anything through a waypoint here.", rows: accounts, columns: [
      { title: "Principal", show: (it) => String(it.principal), by: (it) => it.principal },
      { title: "Waypoint", show: ({ daemon }) => daemon.status.address ?? daemon.place, by: ({ daemon }) => daemon.status.address },
      { title: "Packets", number: true, show: (it) => whole(it.packets), by: (it) => it.packets },
      { title: "Bytes", number: true, show: (it) => bytes(it.bytes), by: (it) => it.bytes },
    ] }),
    keyservers.map((daemon) => keyserver(data, daemon)),
  ];
}

function keyserver(data, { place, status, ...daemon }) {
  const behind = (it) => (it.serial ?? -1) < status.serial;
  return h("section", { "data-key": place }, h("h2", {}, `Key server ${status.name}`),
    figures([
      ["Principals", whole(status.principals)], ["Revocations", whole(status.revocations)], ["Serial", whole(status.serial)],
      ["Answers", short(data.load({ place, status, ...daemon })), "/s"],
    ]),
    h("h2", {}, "Waypoints that follow it"),
    table({ id: `followers ${place}`, caption: "Waypoints that follow it", none: "None does.", rows: list(status.followers), columns: [
      { title: "Waypoint", show: (it) => it.waypoint, by: (it) => it.waypoint },
      { title: "Serial", number: true, show: (it) => (behind(it) ? h("span", { class: "bad" }, `${it.serial ?? "none"}, behind`) : whole(it.serial)), by: (it) => it.serial },
      { title: "Seen", number: true, show: (it) => (it.seen_s === null ? "never" : `${span(it.seen_s)} ago`), by: (it) => it.seen_s },
    ] }));
}

export function exchange(data) {
  return [
    h("h1", {}, "Exchange"),
    h("p", { class: "lead" }, "What the servers of a private exchange compute together, and who is connected. Neither they nor this page see a route or a policy."),
    data.of("exchange").map((daemon) => server(data, daemon)),
    data.of("member").map((daemon) => member(data, daemon)),
  ];
}

function server(data, { place, status }) {
  const { now_ms } = data.state;
  const rate = (figure) => data.rates(place, [figure]);
  const micros = (key, quantile) => data.values(place, `${key}.${quantile}`).map(({ at, value }) => ({ at, value: value === null ? null : value / 1000 }));
  return h("section", { "data-key": place }, h("h2", {}, `Party ${status.party}${status.is_standby ? ", standby" : ""}`),
    figures([
      ["Routes", whole(status.routes?.current), "current"], ["Rounds", whole(status.rounds?.selected), "done"],
      ["Under way", whole(status.rounds?.under_way)], ["Missed", whole(status.rounds?.missed)],
      ["Members", whole(list(status.members).length), `of ${status.sites}`], ["Other party", status.pair ? "there" : "away", status.pair ? span(status.pair.connected_s) : ""],
    ]),
    h("div", { class: "charts" },
      chart({ id: `rounds ${place}`, title: "rounds", unit: "/s", now_ms, format: short, series: [{ label: "selected", points: rate("rounds.selected") }, { label: "missed", points: rate("rounds.missed") }] }),
      chart({ id: `took ${place}`, title: "a round takes", now_ms, format: millis, series: [{ label: "half", points: micros("round_latency_us", "p50") }, { label: "99 of 100", points: micros("round_latency_us", "p99") }] }),
      chart({ id: `triples ${place}`, title: "triples in stock", now_ms, format: short, series: [{ label: "bits", points: data.values(place, "triples.bits_in_stock") }, { label: "vectors", points: data.values(place, "triples.vectors_in_stock") }] })),
    h("h2", {}, "Members"),
    table({ id: `members ${place}`, caption: "Members", none: "No member is connected.", rows: list(status.members), columns: [
      { title: "Site", show: (it) => it.site, by: (it) => it.site },
      { title: "Address", show: (it) => h("span", { class: "mono" }, it.address), by: (it) => it.address },
      { title: "Connected", number: true, show: (it) => span(it.connected_s), by: (it) => it.connected_s },
      { title: "Waits to be sent", number: true, show: (it) => bytes(it.unsent_bytes), by: (it) => it.unsent_bytes },
      { title: "Routes refused", number: true, show: (it) => whole(it.refused_routes), by: (it) => it.refused_routes },
    ] }),
    h("h2", {}, "Shards"),
    table({ id: `shards ${place}`, caption: "Shards", none: "None.", rows: list(status.shards), columns: [
      { title: "Shard", show: (it) => String(it.shard), by: (it) => it.shard },
      { title: "Computes", show: (it) => (it.computes ? "yes" : h("span", { class: status.is_standby ? "soft" : "bad" }, "no")), by: (it) => String(it.computes) },
      { title: "Waiting", number: true, show: (it) => whole(it.waiting), by: (it) => it.waiting },
      { title: "Current", number: true, show: (it) => whole(it.current), by: (it) => it.current },
      { title: "Handled", number: true, show: (it) => whole(it.handled), by: (it) => it.handled },
    ] }));
}

function member(data, { place, status }) {
  const { router = {}, exchange: seat = {}, routes = {} } = status;
  return h("section", { "data-key": place }, h("h2", {}, `Member ${status.site ?? place}`),
    figures([
      ["Own routes", whole(routes.own)], ["Offered", whole(routes.offered)], ["In use", whole(routes.in_use)],
      ["Shards", `${seat.live_shards ?? 0}`, `of ${seat.shards ?? 0}`], ["Router", words(router.state ?? "–"), router.since_s === undefined ? "" : span(router.since_s)],
    ]),
    router.problem && h("p", { class: "note bad" }, router.problem));
}
