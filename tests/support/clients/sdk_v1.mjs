// Drives the TypeScript SDK v1 client. A plan comes in as JSON, an outcome for each of its steps goes out as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { runPlan } from "./plan.mjs";

const load = (name) => import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve(name)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

await runPlan(async ({ command, args }) => {
  const client = new Client({ name: "test-v1", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
  return {
    list: () => client.listTools(),
    call: (name, args) => client.callTool({ name, arguments: args }),
    read: (uri) => client.readResource({ uri }),
    close: () => client.close(),
  };
});
