// The view of the tool catalogue: its price, search as a model sees it, and tools that no one uses.
import { count, exact, percent } from "./format.js";
import { el, empty, heading, link, section, snippet, table, tile } from "./parts.js";
import { SPAN } from "./views.js";

const BASE = "/admin/v1/catalogue";
/** The number of unused tools of which the policy to hide them is shown. */
const MAX_HIDDEN = 40;

const endpoint = (one) => `${one.server}::${one.name}`;

/** The tools of each server, with their price and their calls. */
function byServer(tools, calls) {
  const servers = new Map();
  for (const one of tools) {
    const row = servers.get(one.server) ?? { server: one.server, tool_count: 0, tokens: 0, calls: 0, unused: 0 };
    const called = calls.get(endpoint(one)) ?? 0;
    row.tool_count += 1;
    row.tokens += one.tokens;
    row.calls += called;
    row.unused += called === 0 ? 1 : 0;
    servers.set(one.server, row);
  }
  return [...servers.values()];
}

/** Shows the catalogue, and what a search for the parameter `q` of the address finds. */
export async function catalogue(context) {
  const words = context.parameters.get("q") ?? "";
  const used = new URLSearchParams({ from: `-${context.range}`, measure: "calls", by: "upstream,tool" });
  const [overview, categories, history, found] = await Promise.all([
    context.get(`${BASE}/overview`),
    context.get(`${BASE}/categories?max_tokens=6000`),
    context.get(`/admin/v1/query?${used}`),
    words === "" ? null : context.get(`${BASE}/search?${new URLSearchParams({ q: words, limit: "10" })}`),
  ]);
  const { tokens, tools } = overview;
  const calls = new Map(history.rows.map((row) => [`${row.upstream}::${row.tool}`, row.calls]));
  const servers = byServer(tools, calls);
  const unused = tools.filter((one) => !calls.get(endpoint(one)));
  if (overview.tool_count === 0) return [heading("Catalogue"), empty("No server lists a tool", "Tools appear here once a server is connected.")];
  const saved = 1 - tokens.tiered_list / tokens.full_list;
  return [
    heading("Catalogue", `${exact(overview.tool_count)} tools of ${exact(servers.length)} servers. Prices are tokens.`),
    el("dl", { class: "tiles" },
      tile("Tiered list", count(tokens.tiered_list), saved > 0 ? `${percent(saved)} less than the full list` : "no less than the full list", "hero"),
      tile("Full list", count(tokens.full_list), "all definitions"),
      tile("Hot tools", count(tokens.hot), "the answer of /hot"),
      tile("Categories", count(tokens.categories), "the answer of /categories"),
      tile("Largest definition", count(tokens.largest_schema), "one tool"),
      tile("Without calls", percent(unused.length / tools.length), `${exact(unused.length)} tools in the last ${SPAN[context.range]}`)),
    section("Search", searchForm(words), found && results(found)),
    section("Servers", table("servers", "Servers and the price of their tools", [
      { title: "Server", text: true, value: (row) => row.server, show: (row) => link(row.server, "requests", { upstream: row.server }, { "data-key": `server:${row.server}` }) },
      { title: "Tools", value: (row) => row.tool_count, show: (row) => exact(row.tool_count) },
      { title: "Definitions", value: (row) => row.tokens, show: (row) => count(row.tokens), help: "Tokens of all definitions" },
      { title: "Each", minor: true, value: (row) => row.tokens / row.tool_count, show: (row) => count(Math.round(row.tokens / row.tool_count)), help: "Tokens of a definition on average" },
      { title: "Calls", value: (row) => row.calls, show: (row) => count(row.calls), help: "Recorded calls of its tools" },
      { title: "Without calls", minor: true, value: (row) => row.unused, show: (row) => exact(row.unused) },
    ], servers, 2)),
    section("Categories", table("categories", "Categories", [
      { title: "Category", text: true, value: (row) => row.display_name },
      { title: "Tools", value: (row) => row.tool_count, show: (row) => exact(row.tool_count) },
      { title: "Servers", minor: true, value: (row) => row.server_count, show: (row) => exact(row.server_count) },
      { title: "Often used", text: true, minor: true, unsorted: true, value: () => null, show: (row) => row.popular_tools.join(", ") },
    ], categories.categories, 1), categories.budget && el("p", { class: "note" }, categories.budget.message)),
    unusedTools(unused.map(endpoint), SPAN[context.range]),
  ];
}

function searchForm(words) {
  const apply = (event) => {
    event.preventDefault();
    const wanted = new FormData(event.target).get("q").trim();
    location.hash = wanted === "" ? "#/catalogue" : `#/catalogue?${new URLSearchParams({ q: wanted })}`;
  };
  return el("form", { class: "filters", role: "search", onsubmit: apply },
    el("label", {}, "What a model needs", el("input", { name: "q", value: words, placeholder: "create a calendar event", autocomplete: "off", "data-key": "catalogue:q" })),
    el("div", { class: "actions" }, el("button", { type: "submit", "data-key": "catalogue:search" }, "Search")));
}

/** The tools in the order in which a model gets them, as their summaries. */
function results(found) {
  if (found.tools.length === 0) return el("p", { class: "note" }, "No tool is found.");
  return el("ol", { class: "found" }, found.tools.map((one) => el("li", {},
    el("div", { class: "title" }, el("b", {}, one.tool), one.score !== undefined && el("span", { class: "note" }, `score ${one.score.toFixed(2)}`)),
    el("p", {}, one.description),
    el("p", { class: "note mono" }, Object.entries(one.params).map(([name, kind]) => `${name}: ${kind}`).join(", ") || "no parameters"))));
}

function unusedTools(names, span) {
  if (names.length === 0) return section("Tools without calls", el("p", { class: "note" }, `Each tool was called in the last ${span}.`));
  const rules = names.slice(0, MAX_HIDDEN).map((one) => `    - '${one.replaceAll("'", "''")}'`);
  return section("Tools without calls",
    el("p", { class: "note" }, `Without a call in the last ${span}. Hidden tools are neither found nor callable.`),
    el("details", {}, el("summary", { "data-key": "catalogue:unused" }, `${exact(names.length)} tools`),
      el("ul", { class: "names" }, names.map((one) => el("li", {}, one)))),
    snippet(`catalogue:\n  hide:\n${rules.join("\n")}`, names.length > MAX_HIDDEN ? `policy that hides the first ${MAX_HIDDEN}` : "policy that hides them"));
}
