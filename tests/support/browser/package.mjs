// `node package.mjs PACKAGE`: the package without a client. Prints the results as JSON.
import { pathToFileURL } from "node:url";

const { ContextGuard, MemoryStore, PolicyError } = await import(pathToFileURL(`${process.argv[2]}/index.js`));
const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: {} } };
const list = (count) => JSON.stringify(Array.from({ length: count }, (_, id) => ({ id, name: `record ${id}` })));
const answer = (count) => ({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: list(count) }] } });
const shape = async (guard, message = answer(2000)) => guard.onResponse((await guard.onRequest(call)).ticket, message);
const next = ({ message }) => message.result._meta["dev.context-guard/result"].nextCursor;
const read = (cursor) => ({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "context_guard_read", arguments: { cursor } } });
const seen = {};

// An invalid policy is rejected with all of its errors.
try {
  new ContextGuard({ policy: { tokenBudgetTreshold: 1, defaultPageSize: 0 } });
} catch (error) {
  seen.policy = [error instanceof PolicyError, error.message];
}
seen.warnings = new ContextGuard({ policy: "" }).warnings;

// A message has the same form before and after.
const bytes = new TextEncoder();
seen.forms = await Promise.all([answer(2000), JSON.stringify(answer(2000)), bytes.encode(JSON.stringify(answer(2000)))].map(async (message) => (await shape(new ContextGuard(), message)).message.constructor.name));

// An answer that fits is returned as the same object, and so is any other message.
const small = answer(3);
seen.same = (await shape(new ContextGuard(), small)).message === small;
seen.ping = await new ContextGuard().onRequest({ jsonrpc: "2.0", id: 5, method: "ping" });

// Each guard generates its own key, unless one is configured.
const [one, other] = [new ContextGuard(), new ContextGuard()];
seen.forged = (await other.onRequest(read(next(await shape(one))))).answer.result.isError;
const rotated = [new ContextGuard({ keys: "the first key of all", store: new MemoryStore() })];
const cursor = next(await shape(rotated[0]));
seen.rotated = (await new ContextGuard({ keys: ["a second key of them", "the first key of all"], store: new MemoryStore() }).onRequest(read(cursor))).answer.result.content[0].text;

// If the store fails, read-only tools are called again, and other answers are truncated with a mark.
const broken = { get: () => Promise.reject(new Error("no store")), put: () => Promise.reject(new Error("no store")) };
const failing = new ContextGuard({ store: broken, policy: { endpoints: [{ match: "list", readOnly: true }] }, keys: "a key of enough bytes" });
seen.without = JSON.parse((await shape(failing)).message.result.content[0].text).meta.totalCount;
const cut = await shape(new ContextGuard({ store: broken }));
seen.cut = [cut.message.result.content.at(-1).text, JSON.stringify(cut.message).length <= 10240, String(cut.fault)];
const replaying = new ContextGuard({ store: null, keys: "a key of enough bytes", policy: { endpoints: [{ match: "list", readOnly: true }] } });
const first = await shape(replaying);
const again = await replaying.onRequest(read(next(first)));
seen.replay = [again.forward.params.name, JSON.parse((await replaying.onResponse(again.ticket, { ...answer(2000), id: 2 })).message.result.content[0].text).items[0].id];
seen.changed = (await replaying.onResponse(again.ticket, { ...answer(1999), id: 2 })).message.result.content[0].text;
const asked = await new ContextGuard({ store: broken }).onRequest(read(next(first)));
seen.asked = asked.answer?.result.content[0].text;

// The memory store evicts the least recently used entries, and expires entries.
let now = 1000;
const store = new MemoryStore({ bytes: 10, now: () => now });
store.put([{ key: "a", value: new Uint8Array(4) }, { key: "b", value: new Uint8Array(4) }], 100);
store.get(["a"]);
store.put([{ key: "c", value: new Uint8Array(4) }], 50);
seen.used = store.get(["a", "b", "c"]).map((value) => value?.length ?? null);
store.extend(["c"], 500);
now = 1200;
seen.later = [...store.get(["a", "c"]).map((value) => value?.length ?? null), store.bytes];
try {
  store.put([{ key: "d", value: new Uint8Array(11) }], 1);
} catch (error) {
  seen.full = error.message;
}
seen.tokens = [one.estimateTokens("hello, world"), one.estimateTokens({ a: [1, 2, 3] })];
process.stdout.write(JSON.stringify(seen));
