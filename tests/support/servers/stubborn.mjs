// An MCP server over standard input and output that does not end by itself: it ignores the end of its
// input and SIGTERM, and starts a process that does so too. Its tools show its environment and
// write to its standard streams. With --polite it ends with its input, but its own process does not.
// With --strict it exits on a request that precedes `initialize`, as servers of some SDKs do.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const polite = process.argv.includes("--polite");
let initialized = !process.argv.includes("--strict");
const grandchild = spawn("sh", ["-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"], { stdio: ["ignore", "pipe", "ignore"] });
await once(grandchild.stdout, "data");
if (!polite) process.on("SIGTERM", () => {});
setInterval(() => {}, 1_000_000);

const TOOLS = {
  pids: () => `${process.pid} ${grandchild.pid}`,
  environment: () => JSON.stringify(process.env),
  // Each line of the log of a server that writes to the wrong stream.
  chat: () => (process.stdout.write('Server "ready" on stdio\nanother line\n{"level":30,"msg":"a JSON log"}\n'), "chatted"),
  latin1: () => (process.stderr.write(Buffer.from("caf\xe9\rforged line\n", "latin1")), "complained"),
  // Waits until the pipe has taken everything: a reader that stops would block it for ever.
  flood: async ({ megabytes }) => {
    const block = Buffer.alloc(1 << 20, "x");
    for (let at = 0; at < megabytes; at += 1) if (!process.stderr.write(block)) await once(process.stderr, "drain");
    return "flooded";
  },
  die: () => {
    process.stderr.write("Error: the database is locked\n", () => process.exit(3));
    return new Promise(() => {});
  },
};

const lines = createInterface({ input: process.stdin });
lines.on("close", () => polite && process.exit(0));
lines.on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
  if (id === undefined) return;
  initialized ||= method === "initialize";
  if (!initialized) process.exit(1);
  if (method === "initialize") {
    answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "stubborn", version: "1" } });
  } else if (method === "tools/list") {
    answer({ tools: Object.keys(TOOLS).map((name) => ({ name, inputSchema: { type: "object" } })) });
  } else if (method === "tools/call") {
    answer({ content: [{ type: "text", text: await TOOLS[params.name](params.arguments ?? {}) }] });
  } else {
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } }) + "\n");
  }
});
