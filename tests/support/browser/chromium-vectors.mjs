// `node chromium-vectors.mjs PACKAGE CASES`: the golden vectors in Chromium.
import { readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { serve, withPage } from "./chromium.mjs";

const [folder, cases] = process.argv.slice(2);
const blank = `${dirname(cases)}/blank.html`;
await writeFile(blank, "<!doctype html><link rel=icon href=data:,><title>vectors</title>");
const site = await serve({ "/package/": folder, "/tests/": dirname(fileURLToPath(import.meta.url)), "/": dirname(cases) });
const all = JSON.parse(await readFile(cases, "utf8"));
const found = await withPage(async (page) => {
  await page.goto(`${site.url}/blank.html`);
  return page.evaluate(async (all) => {
    const [{ ContextGuard }, { outcomes }] = await Promise.all([import("/package/index.js"), import("/tests/vectors.mjs")]);
    return JSON.stringify(await outcomes(ContextGuard, all));
  }, all);
});
site.close();
process.stdout.write(found);
