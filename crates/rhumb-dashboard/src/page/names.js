// The names that a RIB stores: searched by their beginning or by what they are called here, and
// looked through page by page. Asked when somebody wants it, not every two seconds.

import { h } from "./elements.js";
import { ask } from "./session.js";
import { table } from "./tables.js";
import { plain, role, who } from "./views.js";
import { list, span, whole } from "./words.js";

/** By the place of a RIB: what is looked for, the page that is shown, and those before it. */
const looks = new Map();

export function names(data, daemon, redraw) {
  const { place } = daemon;
  if (!looks.has(place)) looks.set(place, { wanted: "", begins: "", page: null, at: null, before: [], problem: null, isAsking: false });
  const look = looks.get(place);
  const show = async (begins, at, before) => {
    if (look.isAsking) return;
    Object.assign(look, { isAsking: true, problem: null });
    redraw();
    try {
      const page = await ask("/api/names", { method: "POST", body: JSON.stringify({ place, begins, ...(at && { after: at }) }) });
      Object.assign(look, { page, begins, at, before });
    } catch (problem) {
      Object.assign(look, { problem: problem.message, page: null });
    }
    look.isAsking = false;
    redraw();
  };
  const search = (event) => {
    event.preventDefault();
    const begins = meant(data, look.wanted);
    if (begins === null) {
      Object.assign(look, { page: null, problem: `Nobody is called “${look.wanted}” here, and no name begins so.` });
      return redraw();
    }
    return show(begins, null, []);
  };
  const id = `known-to ${place}`;
  return h("div", { class: "names" },
    h("form", { class: "ask", onsubmit: search },
      h("label", {}, "Names that begin so, or are called so here",
        h("input", { name: "begins", list: id, autocomplete: "off", autocapitalize: "none", spellcheck: "false", placeholder: "all", oninput: (event) => { look.wanted = event.target.value.trim(); } })),
      h("datalist", { id }, Object.values(data.state.labels).slice(0, MOST_LABELS).map((label) => h("option", { value: label }))),
      h("button", { class: "main", disabled: look.isAsking }, "Look")),
    h("div", { role: "status" }, look.problem && h("p", { class: "note bad" }, look.problem), look.page && shown(data, place, look, show)));
}

/** The whole name of who is called so here, or else the text if names may begin so. */
function meant(data, wanted) {
  const called = Object.entries(data.state.labels).filter(([, label]) => label === wanted);
  if (called.length === 1) return called[0][0];
  return /^[a-z2-7]{0,52}$/.test(wanted) ? wanted : null;
}

function shown(data, place, look, show) {
  const { page, begins, at, before } = look;
  const rows = list(page.names).flatMap((name) => rowsOf(name));
  const statement = (title, value) => ({ title, show: value, by: value });
  return h("div", {},
    table({ id: `names ${place}`, caption: "Names of this page", none: begins ? "No name that begins so is stored." : "No name is stored.", rows, columns: [
      { title: "Name", show: (it) => who(data, it.name, it.calls_itself), by: (it) => plain(data, it.name, it.calls_itself) },
      { title: "Is", show: (it) => role(it.role ?? ""), by: (it) => role(it.role ?? "") },
      { title: "Statement", show: (it) => it.kind ?? h("span", { class: "soft" }, it.is_damaged ? "cannot be read back" : "none holds"), by: (it) => it.kind },
      { title: "Says", show: (it) => says(data, it), by: (it) => `${plain(data, it.via)} ${it.address ?? ""}` },
      statement("Number", (it) => (typeof it.sequence === "number" ? String(it.sequence) : null)),
      { title: "Ends in", number: true, show: (it) => (typeof it.ends_in_s === "number" ? span(it.ends_in_s) : null), by: (it) => it.ends_in_s },
      { title: "Published by", show: (it) => [who(data, it.published_by), it.of_a_stranger && h("span", { class: "tag" }, "stranger")], by: (it) => plain(data, it.published_by) },
    ] }),
    h("p", { class: "pages" },
      h("button", { type: "button", disabled: before.length === 0, onclick: () => show(begins, before[before.length - 1], before.slice(0, -1)) }, "Page before"),
      h("span", { class: "soft" }, `page ${whole(before.length + 1)}`),
      h("button", { type: "button", disabled: !page.next, onclick: () => show(begins, page.next, [...before, at]) }, "Next page")));
}

/** A row for each statement, and one for a name of which none holds. */
function rowsOf(name) {
  const said = list(name.statements);
  return said.length > 0 ? said.map((it) => ({ ...name, ...it })) : [name];
}

function says(data, { via, address, up_to, with: peer, names: count }) {
  if (via) return [h("span", {}, "via ", who(data, via)), peer && h("span", {}, ", with ", who(data, peer)), up_to && h("span", {}, ", up to ", who(data, up_to))];
  if (address) return h("span", { class: "mono" }, address);
  return typeof count === "number" ? `${whole(count)} called something under it` : null;
}

/** As many as a list of suggestions is good for. */
const MOST_LABELS = 200;
