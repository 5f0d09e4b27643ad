// `node init.mjs PACKAGE BLANK [SOURCE]`: the module, loaded from each kind of source, in a page and in
// node. Prints the observations as JSON.
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { serve, withPage } from "./chromium.mjs";

const [folder, blank, source] = process.argv.slice(2);

// Returns the number of records in the shaped answer, after the module was loaded from `source`.
async function load({ entry, wasm, source }) {
  const { ContextGuard, init } = await import(entry);
  const read = async () => (wasm.startsWith("file:") ? (await import("node:fs/promises")).readFile(new URL(wasm)) : (await fetch(wasm)).arrayBuffer());
  const sources = {
    default: () => undefined,
    path: () => (wasm.startsWith("file:") ? wasm : new URL(wasm).pathname),
    url: () => new URL(wasm),
    response: async () => new Response(await read(), { headers: { "content-type": "application/wasm" } }),
    promise: () => read(),
    bytes: async () => new Uint8Array(await read()),
    buffer: async () => new Uint8Array(await read()).buffer,
    module: async () => WebAssembly.compile(await read()),
    missing: () => `${wasm}.missing`,
  };
  const count = async () => {
    const guard = new ContextGuard();
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: {} } };
    const text = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `record ${id}` })));
    const { ticket } = await guard.onRequest(call);
    const { message } = await guard.onResponse(ticket, { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text }] } });
    return JSON.parse(message.result.content[0].text).meta.totalCount;
  };
  if (source === "early") {
    try {
      return new ContextGuard();
    } catch (error) {
      return error.message;
    }
  }
  if (source === "missing") {
    const error = await init(sources.missing()).catch((error) => error.message);
    await init();
    return [error, await count()];
  }
  // A promise is passed as it is.
  const given = sources[source]();
  await init(source === "promise" ? given : await given);
  return count();
}

if (source !== undefined) {
  const [entry, wasm] = ["init.js", "context_guard_bg.wasm"].map((name) => pathToFileURL(`${folder}/${name}`).href);
  process.stdout.write(JSON.stringify(await load({ entry, wasm, source })));
} else {
  const sources = ["default", "path", "url", "response", "promise", "bytes", "buffer", "module"];
  const seen = { page: {}, node: {} };
  const site = await serve({ "/package/": folder, "/": blank });
  const wasm = `${site.url}/package/context_guard_bg.wasm`;
  await withPage(async (page) => {
    // Each load of the page starts without the module.
    const inPage = async (source) => {
      await page.goto(`${site.url}/blank.html`);
      return page.evaluate(`(${load})(${JSON.stringify({ entry: "/package/init.js", wasm, source })})`);
    };
    for (const source of sources) seen.page[source] = await inPage(source);
    seen.early = await inPage("early");
    seen.missing = await inPage("missing");
  }).catch((error) => {
    // The browser logs the missing file.
    if (seen.missing === undefined) throw error;
  });
  // Each process has its own module.
  for (const source of sources) {
    seen.node[source] = JSON.parse(execFileSync(process.execPath, [process.argv[1], folder, blank, source], { encoding: "utf8" }));
  }
  site.close();
  process.stdout.write(JSON.stringify(seen));
}
