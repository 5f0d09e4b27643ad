// Prints the number of o200k tokens of each JSON string on standard input, one a line. The argument
// is the folder node_modules that has gpt-tokenizer.
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(resolve(process.argv[2], "bench.js"));
const { countTokens } = require("gpt-tokenizer/encoding/o200k_base");
const options = { disallowedSpecial: new Set() };
for await (const line of createInterface({ input: process.stdin })) {
  console.log(countTokens(JSON.parse(line), options));
}
