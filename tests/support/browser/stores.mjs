// `node stores.mjs PACKAGE BLANK`: cursors that survive a page reload in the browser's database.
// Prints the observations as JSON.
import { serve, withPage } from "./chromium.mjs";

const [folder, blank] = process.argv.slice(2);
const site = await serve({ "/package/": folder, "/": blank });
const seen = await withPage(async (page) => {
  await page.goto(`${site.url}/blank.html`);
  const cursor = await page.evaluate(async () => {
    const { ContextGuard, IndexedDBStore } = await import("/package/index.js");
    const guard = new ContextGuard({ keys: "a key that outlives the page", store: new IndexedDBStore() });
    const { ticket } = await guard.onRequest({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: {} } });
    const text = JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, name: `record ${id}` })));
    const { message } = await guard.onResponse(ticket, { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text }] } });
    return message.result._meta["dev.context-guard/result"].nextCursor;
  });
  await page.reload();
  return page.evaluate(async (cursor) => {
    const { ContextGuard, IndexedDBStore } = await import("/package/index.js");
    const read = async (options) => {
      const guard = new ContextGuard({ keys: "a key that outlives the page", ...options });
      const { answer } = await guard.onRequest({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "context_guard_read", arguments: { cursor } } });
      return answer.result;
    };
    const next = await read({ store: new IndexedDBStore() });
    const later = () => Date.now() + 3_600_000;
    const expired = await read({ store: new IndexedDBStore({ now: later }), now: later });
    const other = await read({ store: new IndexedDBStore(), principal: "somebody else" });
    // The next write removes expired entries.
    const store = new IndexedDBStore({ now: later });
    await store.put([{ key: "k", value: new Uint8Array([1, 2]) }], 1000);
    await store.extend(["k"], 5000);
    const database = await new Promise((resolve) => (indexedDB.open("context-guard").onsuccess = ({ target }) => resolve(target.result)));
    const left = await new Promise((resolve) => (database.transaction("entries").objectStore("entries").getAllKeys().onsuccess = ({ target }) => resolve(target.result)));
    await store.delete(["k"]);
    return { first: JSON.parse(next.content[0].text).items[0].id, expired: expired.content[0].text, other: other.content[0].text, left, gone: (await store.get(["k"]))[0] === undefined };
  }, cursor);
});
site.close();
process.stdout.write(JSON.stringify(seen));
