// An MCP server on standard input and output whose tools answer with prepared texts, which need not
// be valid messages. The argument is a JSON object: the text by tool, with ID for the request's id.

import { createInterface } from "node:readline";

const table = JSON.parse(process.argv[2]);
const held = [];
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const serverInfo = { name: "odd", version: "1" };
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    const tools = Object.keys(table).map((name) => ({ name, inputSchema: { type: "object" } }));
    say({ id, result: { tools } });
  } else if (method === "tools/call" && params.name === "hold") {
    held.push(id);
  } else if (method === "tools/call" && params.name === "release") {
    for (const other of held.splice(0)) say({ id: other, result: { content: [] } });
    say({ id, result: { content: [] } });
  } else if (method === "tools/call") {
    process.stdout.write(`${table[params.name].replaceAll("ID", JSON.stringify(id))}\n`);
  } else if (method === "notifications/initialized") {
    // Some servers answer notifications, which have no answer.
    say({ id: null, error: { code: -32601, message: "Method not found" } });
  }
});
