// An MCP server for fault injection: each tool is a fault, which no SDK would produce. It supports
// the stateful protocol mode. It listens on loopback and prints its URL, or uses standard input and
// output with --stdio. With SESSIONS it assigns session ids over HTTP.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

const FAULTS = ["ok", "die", "hang", "slow", "garbage", "half", "huge", "wrong_id", "twice", "bytes", "cancelled", "hanging", "flood", "flooded", "complain"];
const text = (text) => ({ content: [{ type: "text", text }] });
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let cancelled = 0;
let hanging = 0;
let flooded = 0;

// Yields the pieces of the answer to a message, each raw text or { message }, over time.
async function* answer({ id, method, params }) {
  const say = (result, other = id) => ({ message: { jsonrpc: "2.0", id: other, result } });
  if (method === "notifications/cancelled") cancelled += 1;
  if (id === undefined) return;
  if (method === "initialize") {
    yield say({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "faulty", version: "1" } });
  } else if (method === "tools/list") {
    yield say({ tools: FAULTS.map((name) => ({ name, description: `The fault ${name}`, inputSchema: { type: "object" } })) });
  } else if (method !== "tools/call") {
    yield { message: { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } } };
  } else if (params.name === "ok") {
    yield say(text(`all is well: ${params.arguments?.n ?? ""}`));
  } else if (params.name === "die") {
    process.exit(3);
  } else if (params.name === "hang") {
    hanging += 1;
    await wait(3_600_000);
  } else if (params.name === "slow") {
    const progressToken = params._meta?.progressToken;
    for (let progress = 1; progress <= 4; progress += 1) {
      await wait(2_000);
      yield { message: { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress } } };
    }
    yield say(text("at last"));
  } else if (params.name === "garbage") {
    yield { text: "this is { no message\n" };
    yield { text: '{"jsonrpc": "2.0", "id": \n' };
    yield say(text("after garbage"));
  } else if (params.name === "half") {
    yield { text: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"ty` };
    await wait(50);
    process.exit(4);
  } else if (params.name === "huge") {
    yield say(text("x".repeat(50_000_000)));
  } else if (params.name === "wrong_id") {
    yield say(text("for somebody else"), 987654321);
    yield say(text("for nobody"), "no such id");
  } else if (params.name === "twice") {
    yield say(text("first"));
    yield say(text("second"));
  } else if (params.name === "bytes") {
    // A byte that is invalid in UTF-8, as in a file of another encoding.
    const [before, after] = JSON.stringify(say(text("caf|, all the same")).message).split("|");
    yield { text: Buffer.concat([Buffer.from(before), Buffer.from([0xe9]), Buffer.from(after + "\n")]) };
  } else if (params.name === "cancelled") {
    yield say(text(String(cancelled)));
  } else if (params.name === "flood") {
    // Blocks of `bytes` or 16 kB: `count` of them, or without end.
    const { bytes, count, log } = params.arguments ?? {};
    const progressToken = params._meta?.progressToken;
    const block = "x".repeat(bytes ?? 16_000);
    for (let progress = 1; progress <= (count ?? Infinity); progress += 1) {
      const notification = log
        ? { method: "notifications/message", params: { level: "error", data: block } }
        : { method: "notifications/progress", params: { progressToken, progress, message: block } };
      yield { message: { jsonrpc: "2.0", ...notification } };
      flooded += 1;
      if (progress % 64 === 0) await wait(0);
    }
    yield say(text("flooded"));
  } else if (params.name === "complain") {
    // Standard error without end: lines, and one line that never ends.
    for (let line = 1; ; line += 1) {
      const end = line % 2 ? "\n" : "";
      if (!process.stderr.write("e".repeat(16_000) + end)) await once(process.stderr, "drain");
      if (line % 64 === 0) await wait(0);
    }
  } else if (params.name === "flooded") {
    yield say(text(String(flooded)));
  } else if (params.name === "hanging") {
    yield say(text(String(hanging)));
  }
}

if (process.argv.includes("--stdio")) {
  let rest = "";
  process.stdin.on("data", async (data) => {
    const lines = (rest + data).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((line) => line.trim())) {
      (async () => {
        for await (const piece of answer(JSON.parse(line))) {
          const taken = process.stdout.write(piece.text ?? JSON.stringify(piece.message) + "\n");
          if (!taken) await once(process.stdout, "drain");
        }
      })();
    }
  });
  process.stdin.on("end", () => process.exit(0));
} else {
  const http = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    if (req.method !== "POST") return res.writeHead(405).end();
    const message = JSON.parse(body);
    if (message.id === undefined) return res.writeHead(202).end();
    const events = ["slow", "flood", "garbage", "half", "wrong_id", "twice"].includes(message.params?.name);
    let gone = false;
    res.on("close", () => {
      if (!res.writableFinished) gone = true;
      if (!res.writableFinished && message.params?.name === "slow") cancelled += 1;
    });
    if (process.env.SESSIONS && message.method === "initialize") res.setHeader("mcp-session-id", randomUUID());
    res.writeHead(200, { "content-type": events ? "text/event-stream" : "application/json" });
    for await (const piece of answer(message)) {
      if (gone) return;
      const taken = res.write(events ? `data: ${piece.text?.trimEnd?.() ?? JSON.stringify(piece.message)}\n\n` : (piece.text ?? JSON.stringify(piece.message)));
      if (!taken) await Promise.race([once(res, "drain"), once(res, "close")]);
    }
    res.end();
  });
  http.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}
