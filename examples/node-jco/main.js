// Guards the answer of a tool, and reads its pages by cursor, until the whole list arrived.
import { readFile } from "node:fs/promises";
import { instantiate } from "./guard/guard.js";
import { MemoryStore } from "./store.js";

// 1. The guard, with the services that it imports: a store and a clock.
const file = (name) => new URL(`guard/${name}`, import.meta.url);
const compile = async (name) => WebAssembly.compile(await readFile(file(name)));
const now = () => ({ seconds: BigInt(Math.floor(Date.now() / 1000)), nanoseconds: 0 });
const { guard } = await instantiate(compile, {
  "context-guard:guard/cursor-store": new MemoryStore(),
  "wasi:clocks/wall-clock": { now, resolution: now },
});

// 2. The settings of each call: a policy, and the keys that sign cursors.
const { resolved } = guard.compilePolicy(JSON.stringify({ tokenBudgetThreshold: 4000 }));
const secret = crypto.getRandomValues(new Uint8Array(32));
const settings = { policy: resolved, keys: [{ id: "1", secret }] };
const context = { principal: "ada", session: "", requestId: "1", upstream: "crm", protocolVersion: "2025-11-25", storeUnavailable: false, onlyCount: false, fullList: false, options: [] };

// 3. Each request and each response passes through the guard.
const encode = (message) => new TextEncoder().encode(JSON.stringify(message));
const decode = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

function call(name, args) {
  const request = encode({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } });
  const verdict = guard.onRequest(settings, context, request);
  if (verdict.tag === "answer") return decode(verdict.val.message).result;
  const { message, ticket } = verdict.val;
  const answer = upstream(message.tag === "shaped" ? message.val : request);
  const { message: shaped } = guard.onResponse(settings, context, ticket, answer);
  return decode(shaped.tag === "shaped" ? shaped.val : answer).result;
}

// The server behind the guard.
function upstream(request) {
  const { id } = decode(request);
  const customers = Array.from({ length: 1000 }, (_, at) => ({ id: at, name: `Customer ${at}`, city: "Lisbon" }));
  return encode({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: JSON.stringify(customers) }] } });
}

const seen = [];
for (let result = call("list_customers", {}), page = 1; ; page += 1) {
  const { items } = JSON.parse(result.content[0].text);
  seen.push(...items);
  console.log(`page ${page}: customers ${items[0].id} to ${items.at(-1).id}`);
  const cursor = result._meta["dev.context-guard/result"].nextCursor;
  if (cursor === undefined) break;
  result = call("context_guard_read", { cursor });
}
console.log(`${new Set(seen.map(({ id }) => id)).size} of 1000 customers read`);
