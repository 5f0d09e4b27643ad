// An MCP server with long answers over Streamable HTTP, built on the official server package. It
// supports both protocol modes, and answers with event streams, or with JSON if JSON=1 is set.
// PORT selects the port (default 3001, 0 for any free one). It prints its URL. It accepts requests
// from any origin, because it is an example and listens on loopback only.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { bookings, booking, log, records } from "./data.mjs";

// Packages are next to this file, or in the folder PEERS.
const { resolve } = createRequire(process.env.PEERS ? `${process.env.PEERS}/` : import.meta.url);
const load = (name) => import(pathToFileURL(resolve(name)));
const { McpServer, createMcpHandler, isLegacyRequest, WebStandardStreamableHTTPServerTransport } = await load("@modelcontextprotocol/server");
const { z } = await load("zod");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const json = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });
const READS = { annotations: { readOnlyHint: true } };

function build() {
  const server = new McpServer({ name: "archive", version: "1.0.0" }, { capabilities: { tools: {} } });
  const tool = (name, description, inputSchema, handler) => server.registerTool(name, { description, inputSchema: z.object(inputSchema), ...READS }, handler);
  tool("list_bookings", "All 500 bookings of the house", {}, () => json({ bookings: bookings(500) }));
  tool("get_booking", "One booking with everything there is to it", { id: z.string() }, ({ id }) => json(booking(id)));
  tool("read_log", "The log of the booking system, 10,000 lines", {}, () => ({ content: [{ type: "text", text: log(10_000) }] }));
  tool("records", "As many records as are asked for", { count: z.number().int().min(0).max(200_000) }, ({ count }) => json(records(count)));
  tool("picture", "A picture", {}, () => ({ content: [{ type: "image", data: PNG, mimeType: "image/png" }] }));
  tool("slow", "Reports progress before it answers", {}, async (_, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= 3 && progressToken !== undefined; progress++) {
      await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 3 } });
      await new Promise((done) => setTimeout(done, 100));
    }
    return json({ bookings: bookings(300) });
  });
  return server;
}

const plain = process.env.JSON === "1";
const modern = createMcpHandler(build, { legacy: "reject" });
const sessions = new Map();

async function stateful(request) {
  const id = request.headers.get("mcp-session-id");
  if (id) return sessions.get(id)?.handleRequest(request) ?? Response.json({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } }, { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
    enableJsonResponse: plain,
  });
  await build().connect(transport);
  return transport.handleRequest(request);
}

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-headers": "*, authorization, content-type, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id",
  "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
  "access-control-expose-headers": "mcp-session-id",
};

const http = createServer(async (req, res) => {
  if (req.method === "OPTIONS") return void res.writeHead(204, CORS).end();
  const body = [];
  for await (const chunk of req) body.push(chunk);
  const gone = new AbortController();
  res.on("close", () => gone.abort());
  const headers = new Headers(Object.entries(req.headers).map(([name, value]) => [name, [value].flat().join(", ")]));
  const request = new Request(`http://${req.headers.host}${req.url}`, { method: req.method, headers, signal: gone.signal, ...(body.length ? { body: Buffer.concat(body) } : {}) });
  try {
    const response = (await isLegacyRequest(request)) ? await stateful(request) : await modern.fetch(request);
    res.writeHead(response.status, { ...Object.fromEntries(response.headers), ...CORS });
    res.flushHeaders();
    for await (const chunk of response.body ?? []) res.write(chunk);
  } catch (error) {
    if (!gone.signal.aborted) console.error(error);
  }
  res.end();
});
http.listen(Number(process.env.PORT ?? 3001), "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
