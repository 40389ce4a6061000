// Figures, times and names as people read them, and what the daemons' figures mean.

const SPACE = "\u202f";

/** A number with three figures and a prefix: 12.3 k. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let at = 0;
  let size = Math.abs(value);
  while (size >= 999.5 && at + 1 < prefixes.length) {
    size /= 1000;
    value /= 1000;
    at += 1;
  }
  const text = size >= 99.5 || Number.isInteger(value) ? value.toFixed(0) : size >= 9.95 ? value.toFixed(1) : value.toFixed(size < 0.095 && size > 0 ? 2 : 1);
  return prefixes[at] ? `${text}${SPACE}${prefixes[at]}` : text;
}

/** A whole number, in groups of three. */
export function whole(value) {
  if (typeof value !== "number") return "–";
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, SPACE);
}

/** Bytes a second as bits a second. */
export function bits(bytes) {
  return bytes === null || bytes === undefined ? "–" : `${withUnit(bytes * 8, "bit/s")}`;
}

/** Bytes. */
export function bytes(value) {
  return typeof value === "number" ? withUnit(value, "B") : "–";
}

function withUnit(value, unit) {
  const text = short(value);
  return /[kMGTP]$/.test(text) ? `${text}${unit}` : `${text}${SPACE}${unit}`;
}

/** Milliseconds. */
export function millis(value) {
  if (typeof value !== "number") return "–";
  const text = value >= 99.5 ? value.toFixed(0) : value >= 9.95 ? value.toFixed(1) : value.toFixed(2);
  return `${text}${SPACE}ms`;
}

/** Seconds as a time. */
export function span(seconds) {
  if (typeof seconds !== "number") return "–";
  if (seconds < 120) return `${Math.floor(seconds)}${SPACE}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}${SPACE}min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}${SPACE}h`;
  return `${Math.floor(seconds / 86400)}${SPACE}days`;
}

/** A word of the daemons' with blanks. */
export function words(key) {
  return key.replaceAll("_", " ");
}

/** The items of a list in a status: of what a daemon tells, a page believes nothing. */
export function list(value) {
  return Array.isArray(value) ? value.filter((item) => item !== null && typeof item === "object") : [];
}

/** The beginning of a name, which is enough to tell it from others on a page. */
export function beginning(name) {
  const text = String(name);
  return text.length > 20 ? text.slice(0, 10) : text;
}

/** What somebody calls itself: in quotes, without what would turn or hide the words beside it. */
export function claim(text) {
  return `“${String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd")}”`;
}

/** By role: what it does most, and where that is counted. */
export const LOADS = {
  router: { figures: ["counters.forwarded_pdus"], bytes: "counters.forwarded_bytes", unit: "PDU/s", does: "forwarded" },
  rib: { figures: ["counters.lookups_found", "counters.lookups_absent", "counters.publishes_stored"], unit: "requests/s", does: "answered" },
  node: { figures: ["traffic.sent", "traffic.received"], unit: "PDU/s", does: "sent and received" },
  waypoint: { figures: ["counters.forwarded_packets"], bytes: "counters.forwarded_bytes", unit: "packets/s", does: "forwarded" },
  keyserver: { figures: ["counters.keys", "counters.zone", "counters.negative", "counters.told"], unit: "answers/s", does: "answered" },
  exchange: { figures: ["routes.exported", "rounds.selected"], unit: "routes/s", does: "handed out" },
  member: { figures: ["router.messages_received", "router.messages_sent"], unit: "messages/s", does: "of its router" },
};

/** Where daemons count what they drop or refuse. */
export const DROPS = ["dropped_pdus", "dropped_datagrams", "dropped_requests", "refused_requests", "refused_capabilities", "dropped_by_reason", "icmp_dropped", "drops", "ends", "dropped", "refused"];

/** Reasons that come with every new flow, and mean nothing. */
const USUAL = new Set(["route_pending", "metadata_pending", "chain_ahead", "unknown_session", "unexpected_acknowledgement", "unknown_pong", "unknown_answer", "no_error", "own_kernel"]);

/** Reasons that somebody attacks, or a key or a clock is wrong. */
const ATTACKS = new Set(["bad_certificate", "access_refused", "locator_refused", "too_many_misses", "replayed", "bad_seal", "malformed", "foreign", "foreign_datagram", "bad_token", "half_open_limit", "source_limit", "handshake_rate", "source_session_limit", "too_many_handshakes", "sender_refused", "bad_signature", "binding", "replay"]);

/** What a reason to drop says: usual, attack or nothing. */
export function kindOfDrop(reason) {
  return USUAL.has(reason) ? "usual" : ATTACKS.has(reason) ? "attack" : "";
}

/** What a daemon is, in the words of the documentation. */
export const ROLES = { router: "router", rib: "RIB", node: "node", waypoint: "waypoint", keyserver: "key server", exchange: "exchange", member: "member", keeper: "keeper", capsule: "capsule", domain: "domain" };
