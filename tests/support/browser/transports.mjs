// `node transports.mjs PACKAGE SERVER`: clients of both SDKs over a guarded transport. Prints the
// observations as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve(name)));
const [folder, url] = process.argv.slice(2);
const { ContextGuard, guardTransport } = await import(pathToFileURL(`${folder}/index.js`));

const nextCursor = (result) => result._meta?.["dev.context-guard/result"]?.nextCursor;

async function session({ Client }, { StreamableHTTPClientTransport }, options) {
  const records = [];
  const guard = new ContextGuard({ upstream: "archive", onRecord: (record) => records.push(record) });
  const client = new Client({ name: "test", version: "1" }, options);
  const transport = guardTransport(new StreamableHTTPClientTransport(new URL(url)), guard);
  await client.connect(transport);
  const { tools } = await client.listTools();
  const call = (name, args = {}, ...more) => client.callTool({ name, arguments: args }, ...more);
  // Each of several concurrent calls gets its own answer.
  const counts = [5, 700, 40, 900, 1, 650];
  const many = await Promise.all(counts.map((count) => call("records", { count })));
  const pages = [await call("list_bookings")];
  while (nextCursor(pages.at(-1))) pages.push(await call("context_guard_read", { cursor: nextCursor(pages.at(-1)) }));
  const progress = [];
  const slow = await client.callTool({ name: "slow", arguments: {} }, ...(options.legacyCall ? [undefined] : []), { onprogress: ({ progress: at }) => progress.push(at) });
  const picture = await call("picture");
  const unknown = await call("no_such_tool").catch((error) => ({ isError: true, thrown: String(error) }));
  const bad = await call("context_guard_read", { cursor: "forged" });
  await client.close();
  const parsed = (result) => JSON.parse(result.content[0].text);
  return {
    tools: tools.map(({ name }) => name),
    many: many.map((result) => (Array.isArray(parsed(result)) ? parsed(result).length : parsed(result).meta.totalCount)),
    bookings: pages.map((page) => parsed(page).bookings.length),
    progress,
    slow: parsed(slow).meta.totalCount,
    picture: picture.content[0],
    unknown: unknown.isError,
    bad: [bad.isError, bad.content[0].text],
    records: records.filter(({ endpoint }) => endpoint === "archive::list_bookings"),
  };
}

const v1 = await session(await load("@modelcontextprotocol/sdk/client/index.js"), await load("@modelcontextprotocol/sdk/client/streamableHttp.js"), { legacyCall: true });
const module = await load("@modelcontextprotocol/client");
const v2 = await session(module, module, {});
const modern = await session(module, module, { versionNegotiation: { mode: "auto" } });
process.stdout.write(JSON.stringify({ v1, v2, modern }));
