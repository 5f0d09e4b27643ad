// An MCP server on standard input and output whose tools return texts of 16 to 60 MB of the worst
// shapes. Each text has the word NEEDLE near its end.

import { createInterface } from "node:readline";

const MB = 1 << 20;
const repeat = (count, text) => Array.from({ length: count }, (_, at) => text(at));
const members = (count, value) => `{${repeat(count, (at) => `"key ${at}":${value(at)}`).join(",")},"last":"NEEDLE"}`;

const TEXTS = {
  a_million_paths: () => members(1_000, (at) => `{${repeat(1_000, (inner) => `"path ${at} ${inner}":${inner}`).join(",")}}`),
  a_million_members: () => members(1_000_000, (at) => at),
  a_million_lines: () => `${repeat(1_000_000, (at) => `2026-11-27 10:00:00 INFO worker ${at} did its work`).join("\n")}\nNEEDLE`,
  a_million_errors: () => `${repeat(400_000, (at) => `ERROR module${at}.f${at % 7}: value ${at} is bad`).join("\n")}\nNEEDLE`,
  one_line: () => `${"word ".repeat(12 * MB)}NEEDLE`,
  one_word: () => `${"x".repeat(60 * MB)}NEEDLE`,
  numbers: () => `[${repeat(4_000_000, (at) => at).join(",")},"NEEDLE"]`,
  nested_lists: () => `[${repeat(2_000, (at) => `[${repeat(2_000, (inner) => at * inner).join(",")}]`).join(",")},"NEEDLE"]`,
  deep: () => `[${repeat(2_000, () => `${'{"a":['.repeat(60)}"${"text ".repeat(1_600)}"${"]}".repeat(60)}`).join(",")},"NEEDLE"]`,
  depth: () => `${"[".repeat(8 * MB)}"NEEDLE"${"]".repeat(8 * MB)}`,
  wide_records: () => `[${repeat(60, (at) => members(10_000, (inner) => `"value ${at} ${inner} of a record"`)).join(",")}]`,
  lines_of_json: () => `${repeat(300_000, (at) => `{"id":${at},"level":"info","message":"request ${at} was served"}`).join("\n")}\n{"id":-1,"message":"NEEDLE"}`,
  markup: () => `<html><body>${repeat(300_000, (at) => `<div class="c${at}"><p>Text ${at}</p></div>`).join("")}NEEDLE</body></html>`,
  table: () => `id,name,note\n${repeat(600_000, (at) => `${at},"name ${at}","a note, with a comma"`).join("\n")}\n-1,NEEDLE,x`,
  quoted: () => JSON.stringify({ log: `${'\\"'.repeat(4 * MB)}NEEDLE` }),
  fences: () => `${repeat(1_500_000, (at) => `~~~ let x${at % 97} = [${at}];`).join("\n")}\nNEEDLE`,
  symbols: () => `${repeat(8 * MB, (at) => "!#$%&()*+,-./:;<=>?@[]^_{|}~~"[(at * at * 7919 + at) % 30]).join("")}NEEDLE`,
  letters: () => JSON.stringify({ data: `${repeat(MB, (at) => (at * 2654435761 % 4294967296).toString(36)).join("")}NEEDLE` }),
  pictures: () => `${repeat(4 * MB, (at) => String.fromCodePoint(0x1f300 + (at * 7919) % 700)).join("")}NEEDLE`,
  wide_signs: () => `${"漢字かな交じり文 ".repeat(700_000)}NEEDLE`,
};

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const serverInfo = { name: "large", version: "1" };
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    const tools = Object.keys(TEXTS).map((name) => ({ name, inputSchema: { type: "object" } }));
    say({ id, result: { tools } });
  } else if (method === "tools/call") {
    say({ id, result: { content: [{ type: "text", text: TEXTS[params.name]() }] } });
  }
});
