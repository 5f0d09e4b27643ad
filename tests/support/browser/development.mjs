// `node development.mjs PAGE SERVER`: loads the example page from vite's development server, with and
// without the wasm module. Prints the texts of its status line as JSON.
import { withPage } from "./chromium.mjs";

const [url, server] = process.argv.slice(2);
const seen = {};

await withPage(async (page) => {
  await page.goto(url);
  await page.locator("#url").fill(server);
  await page.locator("#url").press("Enter");
  await page.getByText(/^Connected to archive/).waitFor();
  seen.status = await page.locator("#status").textContent();
});

await withPage(async (page) => {
  await page.route(/[.]wasm/, (route) => route.abort());
  await page.goto(url);
  await page.locator("#status.bad").waitFor();
  seen.failed = await page.locator("#status").textContent();
}).catch((error) => {
  // The browser logs the aborted request.
  if (seen.failed === undefined) throw error;
});
process.stdout.write(JSON.stringify(seen));
