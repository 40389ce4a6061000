// What is known of the daemons: their state, asked every two seconds while the page is seen, and
// ten minutes of their figures.

import { ask } from "./session.js";
import { DROPS, LOADS, beginning, list } from "./words.js";

const KEPT = 300;
const DEPTH = 3;
/** What comes first on the page. */
const ORDER = ["router", "rib", "waypoint", "keyserver", "exchange", "member", "keeper", "node"];

export class Data {
  constructor() {
    this.state = { daemons: [], labels: {}, now_ms: 0 };
    /** By place: moments, and by figure as many values, null where there is none. */
    this.past = new Map();
    this.asked_at = 0;
    /** What was sent on each session until the look before, and when that was. */
    this.before = new Map();
  }

  /** Asks for what is new; for everything, if that is long ago. */
  async refresh() {
    const now = performance.now();
    if (this.past.size === 0 || now - this.asked_at > 6500) this.take(await ask("/api/history"));
    const next = await ask("/api/state");
    const order = ({ place, status }) => `${ORDER.indexOf(status?.role) + 1 || 9} ${place}`;
    next.daemons.sort((one, other) => order(one).localeCompare(order(other)));
    this.remember(next);
    this.state = next;
    this.asked_at = performance.now();
    for (const daemon of this.state.daemons) this.append(daemon);
    const places = new Set(this.state.daemons.map((daemon) => daemon.place));
    for (const place of this.past.keys()) if (!places.has(place)) this.past.delete(place);
  }

  /** Keeps what was sent on sessions before, unless their daemon has told nothing since. */
  remember(next) {
    const before = new Map();
    const answered = new Map(next.daemons.map((daemon) => [daemon.place, daemon.answered_at_ms]));
    for (const { place, status, answered_at_ms } of this.state.daemons) {
      for (const { peer, sent_datagrams } of list(status?.sessions)) {
        const key = `${place} ${peer}`;
        const known = answered.get(place) === answered_at_ms ? this.before.get(key) : undefined;
        if (known) before.set(key, known);
        else if (typeof sent_datagrams === "number") before.set(key, { at: answered_at_ms, sent: sent_datagrams });
      }
    }
    this.before = before;
  }

  take(histories) {
    this.past.clear();
    for (const [place, { moments_ms, figures }] of Object.entries(histories)) {
      const all = new Map();
      for (const [name, values] of Object.entries(figures)) {
        // A figure that never changed came as one number.
        all.set(name, Array.isArray(values) ? values : moments_ms.map(() => values));
      }
      this.past.set(place, { moments: moments_ms, figures: all });
    }
  }

  append(daemon) {
    if (daemon.answered_at_ms === null) return;
    if (!this.past.has(daemon.place)) this.past.set(daemon.place, { moments: [], figures: new Map() });
    const { moments, figures } = this.past.get(daemon.place);
    if (moments.length > 0 && moments[moments.length - 1] >= daemon.answered_at_ms) return;
    const seen = new Map();
    walk(daemon.status, "", DEPTH, seen);
    const peers = [...list(daemon.status.connections), ...list(daemon.status.sessions)];
    for (const { peer, round_trip_ms } of peers.slice(0, 8)) {
      if (typeof round_trip_ms === "number" && typeof peer === "string") seen.set(`round_trips.${peer.slice(0, 10)}`, round_trip_ms);
    }
    for (const [name, value] of seen) {
      if (!figures.has(name)) figures.set(name, moments.map(() => null));
      figures.get(name).push(value);
    }
    moments.push(daemon.answered_at_ms);
    for (const values of figures.values()) {
      if (values.length < moments.length) values.push(null);
      if (moments.length > KEPT) values.shift();
    }
    if (moments.length > KEPT) moments.shift();
  }

  /** When the first of what is known was. */
  get first_ms() {
    return Math.min(this.state.now_ms, ...[...this.past.values()].map(({ moments }) => moments[0] ?? Infinity));
  }

  /** The daemons that have told how they are, or have once. */
  get told() {
    return this.state.daemons.filter((daemon) => daemon.status !== null);
  }

  /** Of some roles. */
  of(...roles) {
    return this.told.filter((daemon) => roles.includes(daemon.status.role));
  }

  /** A figure over time, as it was. */
  values(place, figure) {
    const past = this.past.get(place);
    const values = past?.figures.get(figure) ?? [];
    return values.map((value, at) => ({ at: past.moments[at], value }));
  }

  /** How fast some counters together grew, a second, over time. One that fell began anew. */
  rates(place, figures) {
    const past = this.past.get(place);
    if (!past) return [];
    const all = figures.map((figure) => past.figures.get(figure)).filter((values) => values);
    if (all.length === 0) return [];
    const points = [];
    for (let at = 1; at < past.moments.length; at += 1) {
      const seconds = (past.moments[at] - past.moments[at - 1]) / 1000;
      let grown = null;
      for (const values of all) {
        const [before, now] = [values[at - 1], values[at]];
        if (before === null || now === null) continue;
        grown = (grown ?? 0) + (now >= before ? now - before : now);
      }
      // Between two looks that are far apart nobody looked.
      points.push({ at: past.moments[at], value: grown === null || seconds > 30 ? null : grown / seconds });
    }
    return points;
  }

  /** How fast they grow now: since the look before the last. */
  rate(place, figures) {
    const points = this.rates(place, figures);
    return points.length > 0 ? points[points.length - 1].value : null;
  }

  /** What a daemon does most, a second. */
  load(daemon) {
    const load = LOADS[daemon.status?.role];
    return load && daemon.standing === "up" ? this.rate(daemon.place, load.figures) : null;
  }

  /** The figures of what a daemon drops: where they are, for what reason, and how many there are. */
  drops(daemon) {
    const all = [];
    for (const place of DROPS) {
      const counts = daemon.status?.[place];
      if (counts === null || typeof counts !== "object" || Array.isArray(counts)) continue;
      for (const [reason, count] of Object.entries(counts)) {
        if (typeof count === "number") all.push({ place, reason, count, figure: `${place}.${reason}` });
      }
    }
    return all;
  }

  /** What a name is called: by this machine's book, or else by its beginning. */
  called(name) {
    return this.state.labels[name] ?? beginning(name ?? "?");
  }

  /** What a daemon is called. */
  calledDaemon({ status, place }) {
    const name = status?.name;
    if (name && name.length === 52) return this.called(name);
    return status?.site ?? name ?? place;
  }

  /** All alarms, each with its daemon, the worst first. */
  get alarms() {
    const all = this.state.daemons.flatMap((daemon) => daemon.alarms.map((alarm) => ({ ...alarm, daemon })));
    return all.sort((one, other) => one.level.localeCompare(other.level));
  }
}

function walk(value, place, depth, seen) {
  for (const [key, inner] of Object.entries(value ?? {})) {
    if (seen.size >= 256) return;
    const name = place ? `${place}.${key}` : key;
    if (typeof inner === "number") seen.set(name, inner);
    else if (inner !== null && typeof inner === "object" && !Array.isArray(inner) && depth > 1) walk(inner, name, depth - 1, seen);
  }
}

/** Several series of points as one, moment by moment. */
export function sum(series, step_ms = 2000) {
  const total = new Map();
  for (const points of series) {
    for (const { at, value } of points) {
      const slot = Math.round(at / step_ms);
      if (value !== null) total.set(slot, (total.get(slot) ?? 0) + value);
    }
  }
  return [...total].sort(([one], [other]) => one - other).map(([slot, value]) => ({ at: slot * step_ms, value }));
}
