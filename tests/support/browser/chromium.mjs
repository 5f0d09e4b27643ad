// A headless Chromium, and files that are served to it over loopback.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";

// The tests install packages in the folder PEERS.
const { chromium } = await import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve("playwright-core")).href).then((module) => module.default ?? module);

const KINDS = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json", ".svg": "image/svg+xml" };
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Serves folders at paths: `{ "/package/": "/a/folder" }`. Returns the URL, and a function that stops it. */
export async function serve(folders) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const found = Object.entries(folders).find(([prefix]) => path.startsWith(prefix));
    try {
      if (found === undefined) throw new Error("no such folder");
      const file = join(found[1], normalize("/" + path.slice(found[0].length)).replace(/\/$/, "/index.html"));
      const body = await readFile(file);
      response.writeHead(200, { "content-type": KINDS[extname(file)] ?? "application/octet-stream" }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Opens a page, and passes it to `work`. Fails if the page logs an error. */
export async function withPage(work, options = {}) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", headless: true, args: FLAGS });
  try {
    const page = await (await browser.newContext(options)).newPage();
    page.setDefaultTimeout(90_000);
    const errors = [];
    page.on("console", (message) => message.type() === "error" && errors.push(`${message.text()} (${message.location().url})`));
    page.on("pageerror", (error) => errors.push(String(error)));
    const done = await work(page);
    if (errors.length > 0) throw new Error(`the page says: ${errors.join("; ")}`);
    return done;
  } finally {
    await browser.close();
  }
}
