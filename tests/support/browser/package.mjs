// `node package.mjs PACKAGE`: what the package does apart from any client. Prints it, as JSON.
import { pathToFileURL } from "node:url";

const { ContextGuard, MemoryStore, PolicyError } = await import(pathToFileURL(`${process.argv[2]}/index.js`));
const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: {} } };
const list = (count) => JSON.stringify(Array.from({ length: count }, (_, id) => ({ id, name: `record ${id}` })));
const answer = (count) => ({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: list(count) }] } });
const shape = async (guard, message = answer(2000)) => guard.onResponse((await guard.onRequest(call)).ticket, message);
const next = ({ message }) => message.result._meta["dev.context-guard/result"].nextCursor;
const read = (cursor) => ({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "context_guard_read", arguments: { cursor } } });
const seen = {};

// A policy with faults is refused, with all of them.
try {
  new ContextGuard({ policy: { tokenBudgetTreshold: 1, defaultPageSize: 0 } });
} catch (error) {
  seen.policy = [error instanceof PolicyError, error.message];
}
seen.warnings = new ContextGuard({ policy: "" }).warnings;

// Messages come back in the form in which they came.
const bytes = new TextEncoder();
seen.forms = await Promise.all([answer(2000), JSON.stringify(answer(2000)), bytes.encode(JSON.stringify(answer(2000)))].map(async (message) => (await shape(new ContextGuard(), message)).message.constructor.name));

// What fits is the same object, untouched; so is what is no answer of interest.
const small = answer(3);
seen.same = (await shape(new ContextGuard(), small)).message === small;
seen.ping = await new ContextGuard().onRequest({ jsonrpc: "2.0", id: 5, method: "ping" });

// Another guard has another key, unless it is given one.
const [one, other] = [new ContextGuard(), new ContextGuard()];
seen.forged = (await other.onRequest(read(next(await shape(one))))).answer.result.isError;
const rotated = [new ContextGuard({ keys: "the first key of all", store: new MemoryStore() })];
const cursor = next(await shape(rotated[0]));
seen.rotated = (await new ContextGuard({ keys: ["a second key of them", "the first key of all"], store: new MemoryStore() }).onRequest(read(cursor))).answer.result.content[0].text;

// A store that fails loses nothing: what may be called again is, the rest is cut and says so.
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

// In memory: the least recently used give way, and time passes.
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
