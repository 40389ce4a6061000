// The session with the dashboard: begun by the token, which comes behind the `#` of the address and
// leaves it at once. Its key is kept for this origin and this tab; the cookie, the other half of
// the session, no script can read.

const KEY = "rhumb-key";

/** What went wrong with a request, and its status. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The token in the address, if there is one. */
export function tokenInAddress() {
  const found = /^#token=([\x21-\x7e]+)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  return decodeURIComponent(found[1]);
}

/** Begins a session. */
export async function begin(token) {
  const told = await ask("/session", { method: "POST", body: JSON.stringify({ token }) });
  sessionStorage.setItem(KEY, told.key);
}

/** Ends the session. */
export async function end() {
  await ask("/session/end", { method: "POST" }).catch(() => {});
  sessionStorage.removeItem(KEY);
}

/** Whether a session was begun in this tab; it may be over. */
export function isBegun() {
  return sessionStorage.getItem(KEY) !== null;
}

/** What the dashboard answers, as JSON. */
export async function ask(path, options = {}) {
  const headers = { "rhumb-key": sessionStorage.getItem(KEY) ?? "" };
  if (options.body) headers["content-type"] = "application/json";
  const patience = AbortSignal.timeout(options.patience ?? 8000);
  let response;
  try {
    response = await fetch(path, { ...options, headers, signal: patience, credentials: "same-origin" });
  } catch {
    throw new Problem(0, "the dashboard does not answer");
  }
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, told.problem ?? `it answers ${response.status}`);
  return told;
}
