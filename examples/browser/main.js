// A guarded session with an MCP server, and its savings. Three lines add the guard: the import, the
// guard itself, and the wrapped transport.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const RESULT = "dev.context-guard/result";

let client;
let tools = [];
let cursor;
let lastRecord;
// The number of items of the current answer that were shown so far.
let position = 0;
const calls = [];

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// A static import that fails would leave the page without a message.
const { ContextGuard, guardTransport } = await import("context-guard").catch((error) => {
  say(`The guard cannot be loaded: ${error.message}. Run "cargo xtask dist", then "npm install", and reload the page.`, true);
  throw error;
});

$("connection").addEventListener("submit", async (event) => {
  event.preventDefault();
  say("Connecting …");
  try {
    await client?.close();
    const guard = new ContextGuard({
      policy: { tokenBudgetThreshold: $("budget").valueAsNumber, hardCap: Math.max(12000, $("budget").valueAsNumber) },
      onRecord: (record) => (lastRecord = record),
    });
    client = new Client({ name: "context-guard-page", version: "0.1.0" });
    await client.connect(guardTransport(new StreamableHTTPClientTransport(new URL($("url").value)), guard));
    ({ tools } = await client.listTools());
    const own = tools.filter(({ name }) => !name.startsWith("context_guard_"));
    $("tool").replaceChildren(...own.map(({ name }) => new Option(name, name)));
    for (const id of ["tool", "arguments", "run"]) $(id).disabled = false;
    describe();
    say(`Connected to ${client.getServerVersion()?.name ?? "the server"}: ${own.length} tools, guarded in this page.`);
  } catch (error) {
    say(`${$("url").value} cannot be reached: ${error.message}. Is the server running, and does it allow this page (CORS)?`, true);
  }
});

// Shows a tool with sample arguments.
function describe() {
  const tool = tools.find(({ name }) => name === $("tool").value);
  $("description").textContent = tool?.description ?? "";
  const needed = tool?.inputSchema.required ?? [];
  const example = { string: "BK-0007", integer: 1000, number: 1, boolean: true };
  const start = Object.fromEntries(needed.map((name) => [name, example[tool.inputSchema.properties[name].type] ?? null]));
  $("arguments").value = JSON.stringify(start, null, 1);
}
$("tool").addEventListener("change", describe);

$("call").addEventListener("submit", async (event) => {
  event.preventDefault();
  let args;
  try {
    args = JSON.parse($("arguments").value || "{}");
  } catch (error) {
    return say(`The arguments are no JSON: ${error.message}.`, true);
  }
  await call($("tool").value, args, $("tool").value);
});

$("next").addEventListener("click", () => call("context_guard_read", { cursor }, "… read on"));

async function call(name, args, label) {
  say(`Calling ${name} …`);
  $("run").disabled = $("next").disabled = true;
  lastRecord = undefined;
  if (name !== "context_guard_read") position = 0;
  try {
    const result = await client.callTool({ name, arguments: args });
    show(result);
    if (lastRecord) {
      // Later parts come from the store: the server does not send them again.
      const before = name === "context_guard_read" ? 0 : lastRecord.originalTokens;
      calls.push({ label, before, after: lastRecord.estimatedTokens });
      draw();
    }
    say(result.isError ? "The tool failed." : "Answered.", result.isError === true);
    // On narrow screens the answer is below the form.
    $("seen").closest("section").scrollIntoView({ block: "nearest" });
  } catch (error) {
    say(`${name} failed: ${error.message}`, true);
  }
  $("run").disabled = false;
}

// Shows the answer as a model receives it.
function show(result) {
  const contract = result._meta?.[RESULT];
  const block = (one) => (one.type === "text" ? one.text : `[${one.type}: ${one.mimeType ?? ""}, untouched]`);
  $("seen").replaceChildren(...result.content.map((one) => shown(block(one))));
  $("seen").scrollTop = 0;
  $("contract").textContent = contract ? JSON.stringify(contract, null, 2) : "The answer fits: it came as the server sent it.";
  const facts = lastRecord ? [`mode: ${lastRecord.mode}`, `loss: ${lastRecord.loss}`, `${number.format(lastRecord.estimatedTokens)} tokens of ${number.format(lastRecord.budget)}`] : ["as it came"];
  const place = placed(contract);
  if (place) facts.unshift(place);
  $("facts").replaceChildren(
    ...facts.map((fact) => {
      const span = document.createElement("span");
      span.textContent = fact;
      return span;
    }),
  );
  cursor = contract?.nextCursor;
  $("next").disabled = cursor === undefined;
  $("next").classList.toggle("primary", cursor !== undefined);
}

// Returns the place of the answer in the whole, such as "1-50 of 500".
function placed(contract) {
  if (contract?.metadata) {
    const { startLine, endLine, totalLines } = contract.metadata;
    return `lines ${number.format(startLine)}-${number.format(endLine)} of ${number.format(totalLines)}`;
  }
  if (contract?.meta?.totalCount === undefined) return undefined;
  const first = position + 1;
  position += contract.shown;
  return `${number.format(first)}-${number.format(position)} of ${number.format(contract.meta.totalCount)}`;
}

// Returns a block of an answer as an element: JSON as a tree that folds, anything else as text.
function shown(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === "object" && value !== null) return tree(value, undefined, 0);
  const element = document.createElement("pre");
  element.textContent = text;
  return element;
}

function tree(value, name, depth) {
  const label = (...parts) => parts.map(([kind, text]) => Object.assign(document.createElement("span"), { className: kind, textContent: text }));
  const key = name === undefined ? [] : label(["key", `${name}: `]);
  if (typeof value !== "object" || value === null) {
    const line = document.createElement("div");
    line.append(...key, ...label([typeof value, JSON.stringify(value)]));
    return line;
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const node = document.createElement("details");
  node.open = depth < 3;
  const summary = document.createElement("summary");
  summary.append(...key, ...label(["size", size]));
  node.append(summary, ...entries.map(([one, member]) => tree(member, one, depth + 1)));
  return node;
}

function draw() {
  const most = Math.max(...calls.map(({ before, after }) => Math.max(before, after)));
  const bar = (kind, tokens) => {
    const row = document.createElement("div");
    row.className = `bar ${kind}`;
    const line = document.createElement("i");
    // The scale is logarithmic: beside one long log, all other bars would vanish. Leave room for the
    // number next to the longest bar.
    line.style.width = `${(Math.log1p(tokens) / Math.log1p(most)) * 84}%`;
    row.append(line, number.format(tokens));
    return row;
  };
  $("chart").replaceChildren(
    ...calls.map(({ label, before, after }) => {
      const item = document.createElement("li");
      const name = document.createElement("span");
      name.className = "name";
      name.textContent = label;
      const bars = document.createElement("div");
      bars.className = "bars";
      if (before > 0) bars.append(bar("before", before));
      bars.append(bar("after", after));
      item.setAttribute("aria-label", before > 0 ? `${label}: ${number.format(before)} tokens before, ${number.format(after)} after` : `${label}: ${number.format(after)} tokens`);
      item.append(name, bars);
      return item;
    }),
  );
  const sum = (side) => calls.reduce((all, one) => all + one[side], 0);
  const [before, after] = [sum("before"), sum("after")];
  $("total").textContent = before > after ? `${number.format(before)} tokens became ${number.format(after)}: ${Math.round((1 - after / before) * 100)} % less so far.` : "";
}

// Requests need the guard.
$("ready").disabled = false;
say("Not connected.");
