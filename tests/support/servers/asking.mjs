// An MCP server on standard input and output that asks its client for roots before it lists its
// tools, as some servers do, and that has resources but no templates.
import { createInterface } from "node:readline";

let questions = 0;
const waiting = new Map();
const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));

function ask(method) {
  const id = `q${++questions}`;
  send({ id, method });
  return new Promise((resolve) => waiting.set(id, resolve));
}

async function answer({ id, method, params }) {
  switch (method) {
    case "initialize":
      return send({
        id,
        result: {
          protocolVersion: "2025-06-18",
          capabilities: { tools: {}, resources: {} },
          serverInfo: { name: "asking", version: "1" },
        },
      });
    case "tools/list": {
      const roots = await ask("roots/list");
      const description = roots.error ? "without roots" : "with roots";
      return send({ id, result: { tools: [{ name: "go", description, inputSchema: { type: "object" } }] } });
    }
    case "tools/call":
      return send({ id, result: { content: [{ type: "text", text: `called ${params.name}` }] } });
    case "resources/list":
      return send({ id, result: { resources: [] } });
    case "ping":
      return send({ id, result: {} });
    default:
      if (id !== undefined) send({ id, error: { code: -32601, message: "Method not found" } });
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method) return answer(message);
  waiting.get(message.id)?.(message);
  waiting.delete(message.id);
});
