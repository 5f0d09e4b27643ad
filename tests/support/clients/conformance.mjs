// The client that the official conformance suite runs. Its argument is the URL of the server of a
// scenario. If GUARD names the program, the client starts a gateway before that server.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const modern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === "2026-07-28";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");

// Starts a gateway before the server, and returns its URL.
async function gateway(url) {
  const folder = mkdtempSync(join(tmpdir(), "context-guard-client-"));
  const config = join(folder, "gateway.json");
  writeFileSync(config, JSON.stringify({ listen: "127.0.0.1:0", path: new URL(url).pathname, upstreams: [{ name: "server", url }], access: { rateLimit: { perMinute: 0 } } }));
  const guard = spawn(process.env.GUARD, ["serve", "--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  process.on("exit", () => {
    guard.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  return new Promise((resolve, reject) => {
    let said = "";
    guard.stderr.on("data", (data) => {
      said += data;
      const found = said.match(/at (http:\S+)\s/);
      if (found) resolve(found[1]);
    });
    guard.on("exit", () => reject(new Error(said)));
  });
}

const target = process.argv[2];
const url = process.env.GUARD ? await gateway(target) : target;
const client = new Client(
  { name: "conformance-client", version: "1.0.0" },
  {
    capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
    versionNegotiation: { mode: modern ? "auto" : "legacy" },
  },
);
// Fills each field without a default with a value of its type.
const filled = (schema) => Object.fromEntries(Object.entries(schema?.properties ?? {}).filter(([, field]) => field.default === undefined)
  .map(([name, field]) => [name, { boolean: true, number: 1, integer: 1 }[field.type] ?? "text"]));
client.setRequestHandler("elicitation/create", (request) => ({ action: "accept", content: filled(request.params.requestedSchema) }));
let opened;
const common = new Promise((resolve) => (opened = resolve));
const watched = async (input, init) => {
  const response = await fetch(input, init);
  if ((init?.method ?? "GET") === "GET") opened();
  return response;
};
await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: watched }));
const call = (name, args = {}) => client.callTool({ name, arguments: args });

// Some servers of the suite send requests on the common stream. It is open when its response begins.
if (!modern) {
  const timeout = new Promise((_, reject) => setTimeout(() => reject(new Error("the common stream does not open")), 60_000).unref());
  await Promise.race([common, timeout]);
}
const tools = scenario === "initialize" ? [] : (await client.listTools()).tools;
const has = (name) => tools.some((tool) => tool.name === name);
if (scenario === "tools_call") await call("add_numbers", { a: 5, b: 3 });
if (scenario === "elicitation-sep1034-client-defaults") await call("test_client_elicitation_defaults");
if (scenario === "sse-retry") await call("test_reconnection");
if (scenario === "request-metadata") for (const tool of tools) await call(tool.name);
if (scenario === "http-invalid-tool-headers") await call("valid_tool", { region: "x" });
if (scenario === "http-custom-headers") for (const { name, arguments: args } of context.toolCalls) await call(name, args);
if (scenario === "sep-2322-client-request-state") {
  await Promise.all(["test_mrtr_echo_state", "test_mrtr_unrelated"].filter(has).map((name) => call(name)));
  for (const name of ["test_mrtr_no_state", "test_mrtr_no_result_type"].filter(has)) await call(name);
}
if (scenario === "json-schema-2020-12-preservation") {
  await call("json_schema_echo", { schema: tools.find((tool) => tool.name === "json_schema_2020_12_tool").inputSchema });
}
if (scenario === "http-standard-headers") {
  for (const tool of tools) await call(tool.name);
  for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
  for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
}
await client.close();
process.exit(0);
