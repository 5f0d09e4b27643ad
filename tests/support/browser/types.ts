// The types fit the transports of both SDKs.
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { ContextGuard, IndexedDBStore, MemoryStore, guardTransport, type CursorStore, type Settings, type TelemetryRecord } from "context-guard";
import { init } from "context-guard/init";

const url = new URL("http://127.0.0.1/mcp");
const records: TelemetryRecord[] = [];
const mine: CursorStore = { get: async (keys) => keys.map(() => undefined), put: () => {} };
for (const store of [new MemoryStore({ bytes: 1 << 20 }), new IndexedDBStore(), mine, null]) {
  const guard = new ContextGuard({ policy: { tokenBudgetThreshold: 2000 }, keys: ["a secret of sixteen bytes"], store, now: Date.now, onRecord: (record) => records.push(record) });
  await new ClientV1({ name: "a", version: "1" }).connect(guardTransport(new TransportV1(url), guard));
  await new Client({ name: "a", version: "1" }).connect(guardTransport(new StreamableHTTPClientTransport(url), guard));
  const asked = await guard.onRequest({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  if (asked.answer === undefined) {
    const shaped = await guard.onResponse(asked.ticket, "{}");
    const text: string = shaped.message;
    const tokens: number = guard.estimateTokens(text);
    console.log(tokens, asked.forward.method);
  } else {
    console.log(asked.record?.loss === "partial", asked.answer.id);
  }
}
// The settings of a policy are those of its endpoints.
const settings: Settings = { tokenBudgetThreshold: 2000 };
new ContextGuard({ policy: { ...settings, endpoints: [{ match: "x", ...settings }] } });
// @ts-expect-error: there is no such option
new ContextGuard({ polizy: {} });
// @ts-expect-error: there is no such setting; did you mean tokenBudgetThreshold?
new ContextGuard({ policy: { tokenBudgetTreshold: 2000 } });
new ContextGuard({ policy: { endpoints: [{ match: "x::*", strip: ["nulls"], orderBy: { field: "id" } }] } });
// @ts-expect-error: a number is expected
new ContextGuard({ policy: { hardCap: "12000" } });
for (const source of [undefined, "/guard.wasm", url, new Response(), new Uint8Array(), new ArrayBuffer(0), fetch(url)]) await init(source);
for (const jq of ["/jq.wasm", url, new Uint8Array(), fetch(url), () => "/jq.wasm", () => fetch(url)]) await init(undefined, { jq });
// @ts-expect-error: a module is expected
await init(null);
// @ts-expect-error: a module is expected
await init(undefined, { jq: null });
