// Runs a plan, for both TypeScript drivers:
// { server: {command, args} or {url, mode, transport}, steps: [{op, name, arguments, walk}] }.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Clients report some faults with console.debug, which writes to the standard output. That output
// belongs to the outcomes.
console.log = console.info = console.debug = console.error;

// The tests install packages in the folder PEERS.
const load = (name) => import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve(name)));

// Runs the plan with the client of these modules.
export async function drive(clientModule, stdioModule, httpModule, sseModule) {
  const { Client } = await load(clientModule);
  const { StdioClientTransport } = await load(stdioModule);
  const { StreamableHTTPClientTransport } = await load(httpModule);
  const overUrl = async (url, transport) => {
    if (transport !== "sse") return new StreamableHTTPClientTransport(new URL(url));
    const { SSEClientTransport } = await load(sseModule);
    return new SSEClientTransport(new URL(url));
  };
  await runPlan(async ({ command, args, url, mode, transport }) => {
    const options = mode && mode !== "legacy" ? { versionNegotiation: { mode } } : {};
    const client = new Client({ name: "test", version: "1" }, options);
    await client.connect(url ? await overUrl(url, transport) : new StdioClientTransport({ command, args, stderr: "inherit" }));
    return {
      list: () => client.listTools(),
      resources: () => client.listResources(),
      prompts: () => client.listPrompts(),
      prompt: (name) => client.getPrompt({ name }),
      call: (name, args) => client.callTool({ name, arguments: args }),
      read: (uri) => client.readResource({ uri }),
      close: () => client.close(),
    };
  });
}

// Returns the cursor to the next part from the result metadata.
const nextCursor = (result) => result._meta?.["dev.context-guard/result"]?.nextCursor;

async function runPlan(connect) {
  const plan = JSON.parse(process.argv[2]);
  const client = await connect(plan.server);
  const outcomes = [];
  for (const step of plan.steps) {
    try {
      outcomes.push({ ok: true, results: await run(client, step) });
    } catch (error) {
      outcomes.push({ ok: false, error: String(error?.stack ?? error) });
    }
  }
  await client.close();
  process.stdout.write(JSON.stringify(outcomes));
}

async function run(client, step) {
  if (step.op === "list") return [await client.list()];
  if (step.op === "resources" || step.op === "prompts") return [await client[step.op]()];
  if (step.op === "prompt") return [await client.prompt(step.name)];
  if (step.op === "read") return [await client.read(step.name)];
  const results = [await client.call(step.name, step.arguments ?? {})];
  while (step.walk && nextCursor(results.at(-1))) {
    results.push(await client.call("context_guard_read", { cursor: nextCursor(results.at(-1)) }));
  }
  return results;
}
