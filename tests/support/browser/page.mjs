// `node page.mjs SITE SERVER SCREENSHOT`: a guarded session in the example page, mostly by keyboard.
// Prints the observations as JSON.
import { serve, withPage } from "./chromium.mjs";

const [folder, server, screenshot] = process.argv.slice(2);
const site = await serve({ "/": folder });
const seen = {};
const session = async (page, calls) => {
  await page.goto(`${site.url}/`);
  await page.locator("#url").fill(server);
  // Submit the form by keyboard.
  await page.locator("#url").press("Enter");
  await page.getByText(/^Connected to archive/).waitFor();
  for (const [tool, args] of calls) {
    await page.locator("#tool").selectOption(tool);
    if (args) await page.locator("#arguments").fill(args);
    await page.locator("#run").focus();
    await page.keyboard.press("Enter");
    await page.getByText("Answered.").waitFor();
  }
};
const bars = (page) => page.locator("#chart li").evaluateAll((items) => items.map((item) => item.getAttribute("aria-label")));

await withPage(async (page) => {
  await session(page, [["picture"], ["get_booking"], ["list_bookings"]]);
  seen.first = await page.locator("#seen").textContent();
  seen.places = [await page.locator("#facts").textContent()];
  // The tree of the answer folds and unfolds.
  const record = page.locator("#seen details details details").first();
  const isOpen = () => record.evaluate((node) => node.open);
  seen.folds = [await isOpen()];
  await record.locator("summary").first().click();
  seen.folds.push(await isOpen());
  for (let read = 0; read < 2; read++) {
    const before = await page.locator("#chart li").count();
    await page.locator("#next").press("Enter");
    await page.waitForFunction((count) => document.querySelectorAll("#chart li").length > count, before);
  }
  seen.second = await page.locator("#seen").textContent();
  seen.places.push(await page.locator("#facts").textContent());
  await page.locator("#tool").selectOption("read_log");
  await page.locator("#run").press("Enter");
  await page.waitForFunction(() => document.querySelector("#facts").textContent.includes("chunk"));
  seen.bars = await bars(page);
  seen.total = await page.locator("#total").textContent();
  seen.contract = await page.locator("#contract").textContent();
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: screenshot });
}, { viewport: { width: 1240, height: 900 }, colorScheme: "light" });

await withPage(async (page) => {
  await session(page, [["list_bookings"], ["read_log"]]);
  const ground = (scheme) => page.emulateMedia({ colorScheme: scheme }).then(() => page.evaluate(() => getComputedStyle(document.body).backgroundColor));
  seen.grounds = [await ground("light"), await ground("dark")];
  await page.screenshot({ path: screenshot.replace(/\.png$/, "-dark.png") });
  // Invalid input is reported, and the page continues to work.
  await page.locator("#arguments").fill("{");
  await page.locator("#run").press("Enter");
  seen.wrong = await page.locator("#status").textContent();
  // A narrow screen needs no horizontal scrolling.
  await page.setViewportSize({ width: 390, height: 800 });
  seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}, { viewport: { width: 1240, height: 900 }, colorScheme: "dark" });
site.close();
process.stdout.write(JSON.stringify(seen));
