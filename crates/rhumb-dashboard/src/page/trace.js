// The way to a name: each router on it, and the signed word by which it may carry.

import { h } from "./elements.js";
import { ask } from "./session.js";
import { list, millis, span } from "./words.js";
import { who } from "./views.js";

const found = { wanted: "", way: null, problem: null, isAsking: false };

export function trace(data, redraw) {
  const known = new Map();
  for (const daemon of data.of("router")) {
    for (const { name } of list(daemon.status.attached)) known.set(name, data.called(name));
  }
  for (const [name, label] of Object.entries(data.state.labels)) known.set(name, label);
  const name = () => [...known].find(([, label]) => label === found.wanted)?.[0] ?? found.wanted;
  const start = async (event) => {
    event.preventDefault();
    if (found.isAsking || found.wanted === "") return;
    Object.assign(found, { isAsking: true, problem: null, way: null });
    redraw();
    try {
      found.way = await ask("/api/trace", { method: "POST", body: JSON.stringify({ name: name() }), patience: 45_000 });
    } catch (problem) {
      found.problem = problem.message;
    }
    found.isAsking = false;
    redraw();
  };
  return [
    h("h1", {}, "Way to a name"),
    h("p", { class: "lead" }, "Each router on the way, as it answers, and why it may carry: the word of the one before, signed and verified. It is found by the node that rhumb up runs here, or as rhumb trace would."),
    h("form", { class: "ask", onsubmit: start },
      h("label", {}, "Name, or what it is called here",
        h("input", { name: "name", list: "known", autocomplete: "off", spellcheck: "false", oninput: (event) => { found.wanted = event.target.value.trim(); } })),
      h("datalist", { id: "known" }, [...known.values()].map((label) => h("option", { value: label }))),
      h("button", { class: "main", disabled: found.isAsking }, found.isAsking ? "On the way …" : "Find the way")),
    h("div", { role: "status" }, found.problem && h("p", { class: "note bad" }, found.problem), found.way && way(data, found.way)),
  ];
}

function way(data, { from, hops, reached }) {
  return h("div", {},
    h("ol", { class: "hops", "aria-label": "The way" },
      h("li", { class: "end" }, h("div", { class: "row" }, h("strong", {}, who(data, from)), h("span", { class: "soft" }, "asks"))),
      hops.map((hop, at) => step(data, hop, reached && at === hops.length - 1))),
    !reached && h("p", { class: "note bad" }, "The way does not lead to the name."));
}

function step(data, hop, isEnd) {
  const { name, calls_itself, rtt_us, right, border } = hop;
  return h("li", { class: isEnd ? "end" : name ? "" : "lost" },
    h("div", { class: "row" },
      h("strong", {}, name ? who(data, name, calls_itself) : hop.hidden ?? "no answer"),
      isEnd && h("span", { class: "soft" }, "the name itself"),
      typeof rtt_us === "number" && h("span", { class: "rtt" }, millis(rtt_us / 1000))),
    right && evidence(data, "may carry by the word of", right),
    border && evidence(data, "stands at a border by the word of", border),
    !right && name && !isEnd && h("p", { class: "bad" }, "It showed no right to carry."));
}

function evidence(data, text, { issuer, not_after_s, sequence, certificate }) {
  const left_s = not_after_s - data.state.now_ms / 1000;
  return h("div", {},
    h("p", { class: "soft" }, `${text} `, who(data, issuer), left_s > 0 ? `, for ${span(left_s)} more` : ", which is over"),
    h("details", {}, h("summary", {}, `The certificate, number ${sequence}`), h("code", { class: "mono" }, certificate)));
}
