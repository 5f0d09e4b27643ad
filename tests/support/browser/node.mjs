// `node node.mjs PACKAGE CASES`: the golden vectors in node.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { outcomes } from "./vectors.mjs";

const [folder, cases] = process.argv.slice(2);
const { ContextGuard } = await import(pathToFileURL(`${folder}/index.js`));
process.stdout.write(JSON.stringify(await outcomes(ContextGuard, JSON.parse(await readFile(cases, "utf8")))));
