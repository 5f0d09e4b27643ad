// The view of single requests, with the decision about each.
import { bytes, count, duration, exact, name, time } from "./format.js";
import { el, empty, heading, link, section, snippet } from "./parts.js";
import { OUTCOMES, SPAN, signed } from "./views.js";

const FILTERS = [["upstream", "Upstream"], ["tool", "Tool"], ["client", "Client"], ["session", "Session"]];
const DECISIONS = {
  full: "passed whole", page: "a page of the list", chunk: "a chunk of the text", summary: "fields and values left out",
  error: "refused", "": "no decision of the guard",
};

/** Lists requests that match the parameters of the address. */
export async function requests(context) {
  const given = context.parameters;
  if (given.get("id")) return detail(context, given.get("id"));
  const parameters = new URLSearchParams({ from: `-${context.range}`, limit: "50" });
  for (const [key, value] of given) if (value !== "") parameters.set(key, value);
  const answer = await context.get(`/admin/v1/records?${parameters}`);
  const apply = (event) => {
    event.preventDefault();
    const wanted = [...new FormData(event.target)].filter(([, value]) => value !== "");
    location.hash = `#/requests?${new URLSearchParams(wanted)}`;
  };
  const field = ([key, title]) => el("label", {}, title,
    el("input", { name: key, value: given.get(key) ?? "", placeholder: "all", autocomplete: "off", spellcheck: "false", "data-key": `filter:${key}` }));
  const outcome = el("label", {}, "Outcome", el("select", { name: "outcome", "data-key": "filter:outcome" }, el("option", { value: "" }, "all"),
    Object.entries(OUTCOMES).map(([value, title]) => el("option", { value, selected: given.get("outcome") === value }, title))));
  const form = el("form", { class: "filters", onsubmit: apply, "aria-label": "Filters" }, FILTERS.map(field), outcome,
    el("div", { class: "actions" }, el("button", { type: "submit", "data-key": "apply" }, "Apply"), [...given].length > 0 && link("Clear", "requests", {}, { class: "quiet" })));
  const head = [heading("Requests", `Single requests of the last ${SPAN[context.range]}, newest first. * matches any characters.`), form];
  if (answer.records.length === 0) {
    return [...head, empty(answer.next ? "None among the newest 100,000 requests" : "No request matches",
      "Single requests remain for seven days while there is space; sums remain longer. ",
      answer.next && link("Look further back", "requests", { ...Object.fromEntries(given), before: answer.next }))];
  }
  const row = (record) => el("tr", {},
    el("th", { scope: "row", class: "text" }, link(time(record.at), "requests", { id: record.id }, { "data-key": `record:${record.id}`, "aria-label": `Request at ${time(record.at)}: details` })),
    el("td", { class: "text" }, record.parent ? el("span", { class: "note" }, "\u21b3 read of ") : "", `${name(record.upstream)}::${name(record.tool)}`,
      el("span", { class: `narrow note outcome ${record.outcome}` }, OUTCOMES[record.outcome] ?? record.outcome)),
    el("td", { class: "text minor" }, el("span", { class: `outcome ${record.outcome}` }, OUTCOMES[record.outcome] ?? record.outcome)),
    el("td", { class: "text minor" }, name(record.client)),
    el("td", { class: "number minor" }, count(record.tokens_before)),
    el("td", { class: "number" }, count(record.tokens_sent)),
    el("td", { class: "number minor" }, duration(record.latency_ms)));
  const title = (text, kind) => el("th", { scope: "col", class: kind }, text);
  return [...head, el("section", { class: "card" },
    el("div", { class: "scroll", role: "region", "aria-label": "Requests", tabindex: "0" }, el("table", { class: "requests" },
      el("caption", { class: "unseen" }, "Requests, newest first"),
      el("thead", {}, el("tr", {}, title("Time", "text"), title("Tool", "text"), title("Outcome", "text minor"), title("Client", "text minor"),
        title("Answered", "number minor"), title("Sent", "number"), title("Latency", "number minor"))),
      el("tbody", {}, answer.records.map(row)))),
    answer.next && el("p", { class: "more" }, link("Older requests", "requests", { ...Object.fromEntries(given), before: answer.next }))) ];
}

async function detail(context, id) {
  const answer = await context.get(`/admin/v1/records?${new URLSearchParams({ id })}`);
  const record = answer.records.find((one) => String(one.id) === id);
  const back = el("p", {}, link("\u2190 All requests", "requests", {}, { "data-key": "back" }));
  if (!record) return [heading("Request"), back, empty("This request is no longer stored", "Single requests remain for seven days while there is space.")];
  const reads = answer.records.filter((one) => one !== record);
  const saved = record.tokens_before - record.tokens_sent - reads.reduce((sum, read) => sum + read.tokens_sent, 0);
  const match = `${record.upstream}::${record.tool}`;
  const fact = (label, ...value) => el("div", {}, el("dt", {}, label), el("dd", {}, ...value));
  return [
    heading(`${name(record.upstream)}::${name(record.tool)}`, `Answered ${time(record.at)}`), back,
    section("Decision", el("dl", { class: "facts" },
      fact("Outcome", OUTCOMES[record.outcome] ?? record.outcome),
      fact("Kind of answer", DECISIONS[record.decision] ?? record.decision),
      fact("Revision", record.revision === 0 ? "none" : exact(record.revision)),
      fact("Server answered", `${exact(record.tokens_before)} tokens`),
      fact("Sent", `${exact(record.tokens_sent)} tokens, ${bytes(record.bytes_sent)}`),
      !record.parent && fact("Net saved", signed(saved, `${exact(saved)} tokens`)),
      fact("Latency", duration(record.latency_ms)),
      fact("Client", link(name(record.client), "requests", { client: record.client })),
      record.session && fact("Session", link(record.session.slice(0, 8), "requests", { session: record.session }, { class: "mono" })),
      record.parent && fact("Continues", link(`request ${record.parent}`, "requests", { id: record.parent }))),
    record.tool !== "_OTHER" && [el("p", { class: "note" }, "The settings of this tool and where each comes from:"),
      snippet(`context-guard policy explain policy.yaml --endpoint '${match.replaceAll("'", "'\\''")}'`, "command")]),
    !record.parent && section("Follow-up reads", reads.length === 0 ? el("p", { class: "note" }, "None. The model has not read on.")
      : el("ol", { class: "reads" }, reads.reverse().map((read) => el("li", {}, link(time(read.at), "requests", { id: read.id }),
        ` ${DECISIONS[read.decision] ?? read.decision}, `, el("b", {}, `${exact(read.tokens_sent)} tokens`))))),
  ];
}
