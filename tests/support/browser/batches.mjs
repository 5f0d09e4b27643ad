// `node batches.mjs PACKAGE`: batches over a guarded transport. Prints the observations as JSON.
import { pathToFileURL } from "node:url";

const { ContextGuard, guardTransport } = await import(pathToFileURL(`${process.argv[2]}/index.js`));
const text = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `record ${id}` })));
const call = (id, name, args = {}) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } });
const answer = (id) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } });

const sent = [];
const transport = { send: async (message) => void sent.push(message) };
const guarded = guardTransport(transport, new ContextGuard());
const received = [];
let arrived;
const message = () => new Promise((resolve) => (arrived = resolve));
guarded.onmessage = (one) => {
  received.push(one);
  arrived(one);
};

// A cursor to read in the batch.
await guarded.send(call(0, "list"));
let next = message();
transport.onmessage(answer(0));
const { nextCursor } = (await next).result._meta["dev.context-guard/result"];
sent.length = received.length = 0;

next = message();
await guarded.send([call(1, "first"), call(2, "second"), call(3, "context_guard_read", { cursor: nextCursor })]);
const read = await next;
await guarded.send([{ jsonrpc: "2.0", method: "notifications/x" }]);
next = message();
const other = { jsonrpc: "2.0", id: 4, result: {} };
transport.onmessage([answer(1), answer(2), other]);
const batch = await next;
const page = (one) => JSON.parse(one.result.content[0].text);
process.stdout.write(
  JSON.stringify({
    sent: sent.map((batch) => batch.map(({ method, params }) => params?.name ?? method)),
    ids: [batch.map(({ id }) => id), read.id],
    totals: batch.slice(0, 2).map((one) => page(one).meta.totalCount),
    same: batch[2] === other,
    next: page(read).items[0].id,
  }),
);
