// The views. Each reads its data through `context.get` and returns the elements to show.
import { fill, lines, sparkline } from "./charts.js";
import { age, bytes, count, duration, exact, name, percent, time } from "./format.js";
import { bars, el, empty, heading, link, section, snippet, table, tile } from "./parts.js";

const STEPS = { "1h": "1m", "24h": "30m", "7d": "6h", "30d": "1d" };
const SPAN = { "1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const SPARK_STEPS = { "1h": "5m", "24h": "1h", "7d": "12h", "30d": "1d" };
/** The range before, to compare with. */
const DOUBLE = { "1h": "2h", "24h": "48h", "7d": "14d", "30d": "60d" };
const OUTCOMES = {
  passed: "Passed unchanged", paginated: "A page of a list", summarized: "Summarized", chunked: "A chunk of a text",
  shaped: "Shaped otherwise", refused: "Refused", cursor_expired: "Expired cursor", cursor_unavailable: "Store is down", fault: "Fault of the guard",
  upstream_error: "Fault of the server",
};
const COSTS = "net_tokens_saved,reduction,calls,followups,tokens_before,tokens_sent,tokens_followup,tokens_p95,"
  + "oversized,oversized_share,faults,fault_rate,latency_p50,latency_p95";

const query = (context, parameters) =>
  context.get(`/admin/v1/query?${new URLSearchParams({ from: `-${context.range}`, ...parameters })}`);
const delivered = (row) => row.tokens_sent + row.tokens_followup;
const signed = (value, text) => el("span", { class: value < 0 ? "bad" : "" }, text);
const net = { title: "Net saved", value: (row) => row.net_tokens_saved, show: (row) => signed(row.net_tokens_saved, count(row.net_tokens_saved)), help: "Tokens of the server's answers less first answers and follow-up reads" };
const number = (title, measure, show = count, more = {}) => ({ title, value: (row) => row[measure], show: (row) => show(row[measure]), ...more });
const endpoint = (row) => `${name(row.upstream)}::${name(row.tool)}`;
const noCalls = (context) => empty(`No calls in the last ${SPAN[context.range]}`,
  "Calls appear here a moment after ", el("code", {}, "wrap"), ", ", el("code", {}, "stdio"), " or ", el("code", {}, "serve"),
  " has answered them. A longer time range may have some.");

/** The change of a value since the period before. */
function change(now, before, span) {
  if (!before) return null;
  const share = now / before - 1;
  return Math.abs(share) < 0.005 ? `as in the ${span} before` : `${share > 0 ? "+" : ""}${percent(share)} on the ${span} before`;
}

async function overview(context) {
  const measures = "calls,tokens_before,tokens_sent,tokens_followup,net_tokens_saved,reduction,oversized,oversized_share,faults,fault_rate,followups,latency_p95";
  const [now, before, course, tools, outcomes, health, alerts] = await Promise.all([
    query(context, { measure: measures }),
    query(context, { measure: measures, from: `-${DOUBLE[context.range]}`, to: `-${context.range}` }),
    query(context, { measure: "tokens_before,tokens_sent,tokens_followup,calls", step: STEPS[context.range] }),
    query(context, { measure: "net_tokens_saved,tokens_before", by: "upstream,tool", top: 8 }),
    query(context, { measure: "calls", by: "outcome" }),
    context.get("/admin/v1/health"),
    context.session.alerts ? context.get("/admin/v1/alerts") : null,
  ]);
  const total = now.total;
  const span = SPAN[context.range];
  if (!total.calls && !total.followups) return [heading("Overview"), ...alertList(alerts), noCalls(context), healthCard(health)];
  const [times, original, sent, followup] = fill(course, course.rows[0], ["tokens_before", "tokens_sent", "tokens_followup"]);
  const isLoss = total.net_tokens_saved < 0;
  return [
    heading("Overview", `Token estimates of the last ${span}`),
    ...alertList(alerts),
    el("dl", { class: "tiles" },
      tile("Net tokens saved", count(total.net_tokens_saved), isLoss ? "follow-up reads cost more than was saved"
        : `${percent(total.reduction)} of what servers answered`, isLoss ? "hero loss" : "hero"),
      tile("Servers answered", count(total.tokens_before), change(total.tokens_before, before.total.tokens_before, span)),
      tile("Delivered", count(delivered(total)), total.tokens_followup ? `of it ${count(total.tokens_followup)} in ${count(total.followups)} follow-up reads` : "no follow-up reads"),
      tile("Calls", count(total.calls), change(total.calls, before.total.calls, span)),
      tile("Oversized answers", percent(total.oversized_share), `${exact(total.oversized)} above their budget`),
      tile("Latency, p95", duration(total.latency_p95), "within a factor of two"),
      tile("Failed calls", percent(total.fault_rate), `${exact(total.faults)} of ${exact(total.calls)}`, total.fault_rate > 0.01 ? "warn" : ""),
    ),
    section("Tokens over time", lines("Tokens over time", [times, original, sent.map((value, at) => value + followup[at])], [
      { label: "Servers answered", color: "before", filled: true },
      { label: "Delivered", color: "sent", filled: true },
    ])),
    el("div", { class: "columns" },
      section("Tools by net tokens saved", bars(tools.rows.map((row) => ({
        label: link(endpoint(row), "requests", { upstream: row.upstream, tool: row.tool }),
        value: row.net_tokens_saved, text: count(row.net_tokens_saved),
      })), "Tools by net tokens saved"), el("p", { class: "more" }, link("All tools", "tools"))),
      section("How calls were answered", bars(outcomes.rows.filter((row) => row.calls > 0).map((row) => ({
        label: link(OUTCOMES[row.outcome] ?? row.outcome, "requests", { outcome: row.outcome }),
        value: row.calls, text: count(row.calls),
        kind: ["fault", "upstream_error"].includes(row.outcome) ? "bad" : row.outcome === "passed" ? "plain" : "good",
      })), "Calls by outcome")),
    ),
    healthCard(health),
  ];
}

function alertList(alerts) {
  const shown = Array.isArray(alerts) ? alerts.filter((alert) => alert.state === "firing" || alert.state === "pending") : [];
  if (!Array.isArray(alerts)) return [];
  if (shown.length === 0) return [el("p", { class: "calm" }, "No alert is firing.")];
  return [el("ul", { class: "alerts", role: "status" }, shown.map((alert) => el("li", { class: String(alert.state) },
    el("b", {}, alert.name), ` ${alert.state} since ${time(new Date(alert.since).toISOString())}: ${alert.summary}`)))];
}

function healthCard(health) {
  const { gateway, history, estimates } = health;
  const fact = (label, value, note) => el("div", {}, el("dt", {}, label), el("dd", {}, value, note && el("span", { class: "note" }, ` ${note}`)));
  return section("State", el("dl", { class: "facts" },
    gateway && fact("Gateway", gateway.ready ? "ready" : "not ready", `revision ${gateway.revision}`),
    gateway && fact("Cursor store", gateway.store.state, gateway.store.unavailable + gateway.store.full > 0 ? `${exact(gateway.store.unavailable + gateway.store.full)} failed calls` : "no failed call"),
    history && fact("History file", bytes(history.bytes), `${count(history.records)} single requests`),
    history && fact("Not recorded", exact(history.dropped), "calls since the file exists"),
    estimates && fact("Estimates, last day", estimates.samples ? percent(estimates.error) : "not checked", estimates.samples ? `off in ${exact(estimates.samples)} samples` : "no sample"),
  ));
}

/** Returns the rule of a policy that would help a tool, with the reason; null if none would. */
export function advice(row) {
  const read = row.oversized > 0 ? row.followups / row.oversized : 0;
  if (row.oversized < 3) return null;
  if (row.net_tokens_saved < 0 || read >= 2) {
    const wanted = Math.ceil(row.tokens_p95 * 1.1 / 500) * 500;
    const reason = `${read.toFixed(1)} follow-up reads for each oversized answer: a larger budget needs fewer of them.`;
    return [reason, `tokenBudgetThreshold: ${Math.min(Math.max(wanted, 5000), 8000)}`];
  }
  if (row.oversized_share > 0.5 && read < 0.1) {
    return ["Nearly every answer is oversized, and nothing is read on: a smaller first answer may be enough.", "tokenBudgetThreshold: 2000"];
  }
  return null;
}

async function tools(context) {
  const [all, course] = await Promise.all([
    query(context, { measure: COSTS, by: "upstream,tool" }),
    query(context, { measure: "tokens_before", by: "upstream,tool", step: SPARK_STEPS[context.range], top: 100 }),
  ]);
  const rows = all.rows.filter((row) => row.calls > 0 || row.followups > 0);
  if (rows.length === 0) return [heading("Tools"), noCalls(context)];
  const sparks = new Map(course.rows.map((row) => [endpoint(row), fill(course, row, ["tokens_before"])[1]]));
  const columns = [
    { title: "Tool", text: true, value: endpoint, show: (row) => link(endpoint(row), "requests", { upstream: row.upstream, tool: row.tool }, { "data-key": endpoint(row) }) },
    { title: "Trend", unsorted: true, text: true, minor: true, value: () => null, show: (row) => sparks.has(endpoint(row)) ? sparkline(sparks.get(endpoint(row)), `Tokens of ${endpoint(row)} over time`) : "" },
    net,
    number("Reduction", "reduction", percent),
    number("Answered", "tokens_before", count, { minor: true, help: "Tokens of the server's answers" }),
    { title: "Delivered", minor: true, value: delivered, show: (row) => count(delivered(row)), help: "First answers and follow-up reads" },
    number("Largest, p95", "tokens_p95", count, { minor: true, help: "95th percentile of the server's answers" }),
    number("Calls", "calls"),
    number("Reads", "followups", count, { minor: true, help: "Follow-up reads" }),
    number("Oversized", "oversized_share", percent, { minor: true }),
  ];
  const largest = rows.filter((row) => row.oversized > 0).sort((one, other) => other.tokens_p95 - one.tokens_p95).slice(0, 5);
  return [
    heading("Tools", `${exact(rows.length)} tools in the last ${SPAN[context.range]}`),
    section("Costs and savings", table("tools", "Tools with their costs and savings", columns, rows, 2)),
    section("Largest answers", largest.length === 0
      ? el("p", { class: "note" }, "No answer exceeded its budget.")
      : el("ul", { class: "largest" }, largest.map((row) => {
        const found = advice(row);
        const match = `${row.upstream}::${row.tool}`.replaceAll("'", "''");
        return el("li", {}, el("div", { class: "title" }, el("b", {}, endpoint(row)),
          el("span", { class: "note" }, `p95 ${count(row.tokens_p95)} tokens, ${percent(row.oversized_share)} oversized, ${count(row.followups)} follow-up reads`)),
        found === null ? el("p", { class: "note" }, "The budget fits how the answers are read.")
          : [el("p", {}, found[0]), row.tool !== "_OTHER" && snippet(`endpoints:\n  - match: '${match}'\n    ${found[1]}`, `policy for ${endpoint(row)}`)]);
      }))),
  ];
}

async function sessions(context) {
  const [clients, list] = await Promise.all([
    query(context, { measure: COSTS, by: "client" }),
    context.get(`/admin/v1/sessions?from=-${context.range}&limit=200`),
  ]);
  const rows = clients.rows.filter((row) => row.calls > 0 || row.followups > 0);
  if (rows.length === 0 && list.sessions.length === 0) return [heading("Sessions and clients"), noCalls(context)];
  const perCall = (row) => row.oversized ? row.followups / row.oversized : null;
  const columns = [
    { title: "Client", text: true, value: (row) => name(row.client), show: (row) => link(name(row.client), "requests", { client: row.client }) },
    number("Calls", "calls"), net, number("Reduction", "reduction", percent),
    number("Answered", "tokens_before", count, { minor: true }),
    { title: "Reads per oversized", minor: true, value: perCall, show: (row) => perCall(row) === null ? "\u2013" : perCall(row).toFixed(1), help: "Follow-up reads for each oversized answer. 0 means that the client never reads on." },
  ];
  const ofSession = [
    { title: "Session", text: true, value: (row) => row.session, show: (row) => link(row.session.slice(0, 8), "requests", { session: row.session }, { class: "mono", "data-key": row.session }) },
    { title: "Client", text: true, minor: true, value: (row) => name(row.client) },
    { title: "Last call", text: true, newest: true, value: (row) => row.last, show: (row) => el("time", { datetime: row.last, title: time(row.last) }, age(row.last)) },
    { title: "Began", text: true, minor: true, value: (row) => row.first, show: (row) => el("time", { datetime: row.first }, time(row.first)) },
    number("Calls", "calls"), number("Reads", "followups", count, { minor: true }),
    number("Answered", "tokens_before", count, { minor: true }), net,
    number("Oversized", "oversized", exact, { minor: true }),
    { title: "Failed", minor: true, value: (row) => row.faults, show: (row) => el("span", { class: row.faults ? "bad" : "" }, exact(row.faults)) },
  ];
  return [
    heading("Sessions and clients", "A session is named by a digest of its id"),
    section("Clients", table("clients", "Clients", columns, rows, 1)),
    section("Sessions", list.sessions.length === 0
      ? el("p", { class: "note" }, "No session in this time. Stateless clients have none.")
      : table("sessions", "Sessions", ofSession, list.sessions, 2)),
  ];
}

async function upstreams(context) {
  const [all, course, health] = await Promise.all([
    query(context, { measure: `${COSTS},latency_p99`, by: "upstream" }),
    query(context, { measure: "calls", by: "upstream", step: SPARK_STEPS[context.range] }),
    context.get("/admin/v1/health"),
  ]);
  const states = new Map((health.gateway?.upstreams ?? []).map((state) => [state.name, state]));
  const known = new Set(all.rows.map((row) => row.upstream));
  const idle = [...states.keys()].filter((upstream) => !known.has(upstream)).map((upstream) => ({ upstream, calls: 0 }));
  const rows = [...all.rows.filter((row) => row.calls > 0 || row.followups > 0), ...idle];
  if (rows.length === 0) return [heading("Upstreams"), noCalls(context)];
  const sparks = new Map(course.rows.map((row) => [row.upstream, fill(course, row, ["calls"])[1]]));
  const state = (row) => states.get(row.upstream)?.state;
  const down = [...states.values()].filter((one) => one.state === "down" && one.reason);
  const reasons = down.length > 0 && el("ul", { class: "reasons" }, down.map((one) => el("li", {}, el("b", {}, name(one.name)), ` is down. ${one.reason}`)));
  const columns = [
    { title: "Upstream", text: true, value: (row) => name(row.upstream), show: (row) => link(name(row.upstream), "requests", { upstream: row.upstream }) },
    ...(states.size === 0 ? [] : [{ title: "State", text: true, value: (row) => state(row) ?? "", show: (row) => el("span", { class: `state ${state(row) ?? ""}`, title: states.get(row.upstream)?.reason }, state(row) ?? "\u2013") }]),
    { title: "Calls over time", unsorted: true, text: true, minor: true, value: () => null, show: (row) => sparks.has(row.upstream) ? sparkline(sparks.get(row.upstream), `Calls of ${name(row.upstream)} over time`) : "" },
    number("Calls", "calls"),
    { title: "Failed", value: (row) => row.fault_rate, show: (row) => el("span", { class: row.fault_rate > 0 ? "bad" : "" }, percent(row.fault_rate)) },
    number("p50", "latency_p50", duration, { minor: true, help: "Median latency" }),
    number("p95", "latency_p95", duration, { help: "95th percentile of the latency" }),
    number("p99", "latency_p99", duration, { minor: true, help: "99th percentile of the latency" }),
    { ...net, minor: true },
  ];
  return [heading("Upstreams", "Latency from request to answer, within a factor of two"), section("Servers", table("upstreams", "Upstreams", columns, rows, columns.findIndex((column) => column.title === "Calls")), reasons)];
}

async function revisions(context) {
  const measures = [
    ["calls", "Calls", exact, 0], ["fault_rate", "Failed calls", percent, -1], ["oversized_share", "Oversized answers", percent, 0],
    ["reduction", "Reduction", percent, 1], ["tokens_p95", "Largest answers, p95", count, 0], ["followups", "Follow-up reads", exact, 0],
    ["latency_p50", "Latency, p50", duration, -1], ["latency_p95", "Latency, p95", duration, -1],
  ];
  const [all, state] = await Promise.all([
    query(context, { measure: measures.map(([measure]) => measure).join(","), by: "revision" }),
    context.session.gateway ? context.get("/admin/generations") : null,
  ]);
  const rows = all.rows.filter((row) => Number(row.revision) > 0 && row.calls > 0)
    .sort((one, other) => Number(other.revision) - Number(one.revision)).slice(0, 4).reverse();
  if (rows.length === 0) return [heading("Revisions"), noCalls(context)];
  const role = (row) => {
    const revision = Number(row.revision);
    return revision === state?.active?.generation || revision === state?.active ? "active" : revision === state?.trial?.generation ? "on trial" : "";
  };
  const [last, base] = [rows.at(-1), rows.at(-2)];
  const difference = ([measure, , , better]) => {
    if (!base || !base[measure] || last[measure] === null || better === 0) return el("td", { class: "number" }, "\u2013");
    const share = last[measure] / base[measure] - 1;
    const verdict = Math.abs(share) < 0.1 ? "similar" : share * better > 0 ? "better" : "worse";
    return el("td", { class: `number ${verdict === "worse" ? "bad" : ""}` }, `${share > 0 ? "+" : ""}${percent(share)}, ${verdict}`);
  };
  const head = el("tr", {}, el("th", { class: "text", scope: "col" }, "Measure"),
    rows.map((row) => el("th", { class: "number", scope: "col" }, `Revision ${row.revision}`, role(row) && el("span", { class: "badge" }, role(row)))),
    base && el("th", { class: "number", scope: "col" }, `${last.revision} against ${base.revision}`));
  const body = measures.map((measure) => el("tr", {}, el("th", { class: "text", scope: "row" }, measure[1]),
    rows.map((row) => el("td", { class: "number" }, measure[2](row[measure[0]]))), base && difference(measure)));
  return [
    heading("Revisions", "A revision is a guard component under a policy. Numbers begin again when a gateway starts."),
    section("Side by side", el("div", { class: "scroll", role: "region", "aria-label": "Revisions side by side", tabindex: "0" },
      el("table", { class: rows.length < 3 && "short" }, el("caption", { class: "unseen" }, "Revisions side by side"), el("thead", {}, head), el("tbody", {}, body)))),
    !base && el("p", { class: "note" }, "One revision answered all calls. After a change of policy or component, the new one appears beside it."),
  ];
}

async function estimates(context) {
  const all = await query(context, { measure: "samples,estimate_error,samples_off,calls", by: "upstream,tool" });
  const rows = all.rows.filter((row) => row.samples > 0);
  if (rows.length === 0) {
    return [heading("Estimates"), empty("No estimate was checked in this time", "A share of the answers is counted with a real tokenizer (",
      el("code", {}, "telemetry.sample"), ", 1 % by default). The first one appears here.")];
  }
  const total = all.total;
  const off = (row) => row.samples_off / row.samples;
  const columns = [
    { title: "Tool", text: true, value: endpoint },
    number("Samples", "samples", exact),
    { title: "Error", value: (row) => Math.abs(row.estimate_error), show: (row) => el("span", { class: Math.abs(row.estimate_error) > 0.3 ? "bad" : "" }, percent(row.estimate_error)), help: "Estimate less count, as a share of the count" },
    { title: "Off by more than 30 %", value: off, show: (row) => percent(off(row)) },
  ];
  return [
    heading("Estimates", "Estimated tokens against the count of the o200k tokenizer"),
    el("dl", { class: "tiles few" }, tile("Error of all estimates", percent(total.estimate_error), total.estimate_error > 0 ? "estimates are too high" : "estimates are too low", "hero"),
      tile("Samples", exact(total.samples)), tile("Off by more than 30 %", percent(total.samples_off / total.samples), `${exact(total.samples_off)} samples`, total.samples_off ? "warn" : "")),
    section("By tool", table("estimates", "Accuracy of estimates by tool", columns, rows, 2)),
  ];
}

export const VIEWS = { overview, tools, sessions, upstreams, revisions, estimates };
export { OUTCOMES, SPAN, noCalls, signed };
