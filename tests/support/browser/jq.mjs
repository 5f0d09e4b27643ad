// `node jq.mjs PACKAGE BLANK`: programs of jq, for which the package loads its second module, in a
// page, a service worker and node. Prints the observations as JSON.
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { serve, withPage } from "./chromium.mjs";

const [folder, blank] = process.argv.slice(2);
const FILE = "context_guard_jq_bg.wasm";

// Returns the results of programs in each place where a call can have one. `before` is called before
// the first program.
async function programs({ ContextGuard, before = () => {} }) {
  const guard = new ContextGuard({ keys: "a key of both modules" });
  const text = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `record ${id}` })));
  const answer = (id) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } });
  const request = (name, args) => guard.onRequest({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } });
  const call = async (args, id = 1) => {
    const { forward, ticket } = await request("list", args);
    return { forward, ticket, result: (await guard.onResponse(ticket, answer(id))).message.result };
  };
  const first = await call({});
  const cursor = first.result._meta["dev.context-guard/result"].nextCursor;
  const read = async (args) => (await request("context_guard_read", { cursor, ...args })).answer.result;
  const where = await read({ where: "id > 1997", fields: "id" });
  await before();
  const together = await Promise.all([read({ jq: "map(.id) | add" }), read({ path: ".[7].name" }), read({ where: "jq '.[8:10] | map(.id)'" })]);
  const called = await call({ _guard: { jq: ".[1999].name" } });
  const wrong = await read({ jq: ".[" });
  const after = await read({ where: "id > 1998", fields: "id" });
  // Another guard shapes the response, as after a reload of the page.
  const other = new ContextGuard({ keys: "a key of both modules" });
  const carried = (await other.onResponse(called.ticket, answer(1))).message.result;
  const shown = ({ content }) => content[0].text;
  return {
    where: shown(where),
    read: together.map(shown),
    called: shown(called.result),
    forwarded: called.forward.params.arguments,
    wrong: [wrong.isError, shown(wrong)],
    after: shown(after),
    carried: shown(carried),
  };
}

// Returns the answer to a program, in a guard that may lack the module for it.
async function one({ ContextGuard }) {
  const guard = new ContextGuard();
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: { _guard: { jq: "length" } } } };
  const { answer, ticket } = await guard.onRequest(call);
  if (answer !== undefined) return answer.result.content[0].text;
  const { message } = await guard.onResponse(ticket, { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "[1,2,3]" }] } });
  return message.result.content[0].text;
}

const seen = {};
const site = await serve({ "/package/": folder, "/tests/": dirname(fileURLToPath(import.meta.url)), "/": blank });

await withPage(async (page) => {
  const requested = [];
  page.on("request", (request) => request.url().endsWith(".wasm") && requested.push(request.url().split("/").pop()));
  await page.goto(`${site.url}/blank.html`);
  await page.exposeFunction("before", () => (seen.before = [...requested]));
  seen.page = await page.evaluate(`import("/package/index.js").then(({ ContextGuard }) => (${programs})({ ContextGuard, before }))`);
  seen.requested = requested;
});

// The page gives its URL or bytes to `init`, or a function that loads it.
const sources = { url: `"/package/${FILE}"`, function: `() => fetch("/package/${FILE}")`, bytes: `fetch("/package/${FILE}").then((response) => response.arrayBuffer())` };
seen.sources = {};
for (const [name, source] of Object.entries(sources)) {
  seen.sources[name] = await withPage(async (page) => {
    await page.goto(`${site.url}/blank.html`);
    return page.evaluate(`import("/package/init.js").then(async (guard) => {
      await guard.init(undefined, { jq: ${source} });
      return (${one})(guard);
    })`);
  });
}

// Without the module, a program is refused with what to do. It runs once the module is there.
await withPage(async (page) => {
  await page.route(`**/${FILE}`, (route) => route.fulfill({ status: 404 }));
  await page.goto(`${site.url}/blank.html`);
  const run = `import("/package/index.js").then(${one})`;
  const missing = await page.evaluate(run);
  await page.unroute(`**/${FILE}`);
  seen.missing = [missing, await page.evaluate(run)];
}).catch((error) => {
  // The browser logs the missing file.
  if (seen.missing === undefined) throw error;
});

// A service worker can neither import files after its start nor await at its top level.
seen.worker = await withPage(async (page) => {
  await page.goto(`${site.url}/blank.html`);
  return page.evaluate(async () => {
    const { installing } = await navigator.serviceWorker.register("/tests/service-worker.mjs", { type: "module" });
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
    installing.postMessage(undefined, [port2]);
    return answer;
  });
});
site.close();

const init = await import(pathToFileURL(`${folder}/init.js`));
let loads = 0;
const jq = () => {
  loads += 1;
  return readFile(`${folder}/${FILE}`);
};
await init.init(undefined, { jq });
seen.node = await programs({ ContextGuard: init.ContextGuard, before: () => (seen.nodeBefore = loads) });
seen.nodeAfter = loads;
process.stdout.write(JSON.stringify(seen));
