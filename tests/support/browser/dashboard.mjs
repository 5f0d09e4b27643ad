// `node dashboard.mjs SCENARIO ADDRESS KEY [FOLDER]`: the dashboard in Chromium. Prints as JSON what
// the page shows, and what must never happen: errors, violations of the policy, foreign requests.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { withPage } from "./chromium.mjs";

const [scenario, base, key, folder] = process.argv.slice(2);
const VIEWS = ["overview", "tools", "sessions", "upstreams", "revisions", "estimates", "requests"];
const seen = {};
const forbidden = { foreign: [], reports: [], keyed: [] };

/** Opens a page that watches what it must not do. */
async function watched(page, range) {
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("data:")) forbidden.foreign.push(url);
    if (key !== "" && url.includes(key)) forbidden.keyed.push(url);
  });
  await page.exposeFunction("report", (text) => forbidden.reports.push(text));
  await page.addInitScript((wanted) => {
    if (localStorage.getItem("range") === null) localStorage.setItem("range", wanted);
    addEventListener("securitypolicyviolation", (event) => window.report(`${event.violatedDirective}: ${event.blockedURI}`));
  }, range);
  await page.goto(`${base}/`);
}

async function signIn(page, text = key) {
  await page.getByLabel(/Admin token|Code/).fill(text);
  await page.keyboard.press("Enter");
}

const heading = (page) => page.locator("h1").textContent();

/** Waits until a view is shown. */
async function show(page, view, parameters = "") {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${view}${parameters}`);
  await page.waitForFunction(([wanted, text]) => document.querySelector("nav [aria-current]")?.dataset.view === wanted
    && location.hash.endsWith(text) && !document.querySelector("main").hasAttribute("aria-busy"), [view, parameters]);
}

async function open(page, range = "1h") {
  await watched(page, range);
  if (key !== "") await signIn(page);
  await page.locator("h1", { hasText: "Overview" }).waitFor();
}

/** The cells of a table, row by row. */
const rows = (page, name) => page.getByRole("region", { name, exact: true }).locator("tbody tr")
  .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));

const scenarios = {
  async "sign-in"(page) {
    await watched(page, "1h");
    seen.form = await heading(page);
    await signIn(page, "not the key");
    await page.getByRole("alert").filter({ hasText: "not" }).waitFor();
    seen.wrong = await page.getByRole("alert").textContent();
    seen.focused = await page.evaluate(() => document.activeElement.id);
    await signIn(page);
    await page.locator("h1", { hasText: "Overview" }).waitFor();
    seen.cookies = (await page.context().cookies()).map(({ httpOnly, sameSite, path }) => ({ httpOnly, sameSite, path }));
    seen.readable = await page.evaluate(() => document.cookie);
    await page.reload();
    await page.locator("h1", { hasText: "Overview" }).waitFor();
    seen.url = page.url();
    await page.getByRole("button", { name: "Sign out" }).press("Enter");
    await page.locator("h1", { hasText: "Sign in" }).waitFor();
    seen.left = (await page.context().cookies()).length;
  },
  async alerts(page) {
    await open(page);
    seen.alerts = await page.locator(".alerts li").allTextContents();
  },
  async guesses(page) {
    await watched(page, "1h");
    for (let guess = 0; guess < 12; guess++) {
      const answered = page.waitForResponse((response) => response.url().endsWith("/session") && response.request().method() === "POST");
      await signIn(page, `guess ${guess}`);
      seen.status = (await answered).status();
    }
    await page.getByRole("alert").filter({ hasText: "Too many" }).waitFor();
    seen.text = await page.getByRole("alert").textContent();
  },
  async overview(page) {
    await open(page);
    seen.tiles = await page.locator(".tile").evaluateAll((tiles) => Object.fromEntries(tiles.map((tile) => [tile.querySelector("dt").textContent, tile.querySelector("strong").textContent])));
    seen.canvas = await page.locator(".plot canvas").count();
    await page.getByText("Show the numbers").press("Enter");
    seen.numbers = (await rows(page, "Tokens over time")).filter((row) => row[1] !== "0").length;
    seen.bars = await page.getByRole("list", { name: "Tools by net tokens saved" }).locator(".label").allTextContents();
    seen.state = await page.locator(".facts").first().textContent();
  },
  async tools(page) {
    await open(page);
    await show(page, "tools");
    const table = page.getByRole("region", { name: "Tools with their costs and savings" });
    const order = async () => [await table.locator("[aria-sort]").evaluate((cell) => [cell.textContent, cell.getAttribute("aria-sort")]),
      (await rows(page, "Tools with their costs and savings")).map((row) => row[0])];
    seen.first = await order();
    await table.getByRole("button", { name: "Tool", exact: true }).focus();
    await page.keyboard.press("Enter");
    seen.named = await order();
    await page.keyboard.press("Enter");
    seen.reversed = await order();
    seen.sparks = await table.locator("svg").count();
    seen.policies = await page.locator(".snippet code").allTextContents();
  },
  async catalogue(page) {
    await open(page);
    await show(page, "catalogue");
    seen.tiles = await page.locator(".tile").evaluateAll((tiles) => Object.fromEntries(tiles.map((tile) => [tile.querySelector("dt").textContent, tile.querySelector("strong").textContent])));
    seen.servers = await rows(page, "Servers and the price of their tools");
    seen.categories = await rows(page, "Categories");
    seen.unused = await page.locator(".names li").allTextContents();
    seen.policy = await page.locator(".snippet code").textContent();
    await page.getByLabel("What a model needs").fill("which bookings exist");
    await page.keyboard.press("Enter");
    await page.locator(".found li").first().waitFor();
    seen.found = await page.locator(".found b").allTextContents();
    seen.url = page.url();
  },
  async sessions(page) {
    await open(page);
    await show(page, "sessions");
    seen.clients = await rows(page, "Clients");
    seen.sessions = await rows(page, "Sessions");
    await page.getByRole("region", { name: "Sessions", exact: true }).getByRole("link").first().click();
    await page.locator("h1", { hasText: "Requests" }).waitFor();
    seen.requests = (await rows(page, "Requests")).length;
  },
  async upstreams(page) {
    await open(page);
    await show(page, "upstreams");
    seen.upstreams = await rows(page, "Upstreams");
    seen.reasons = await page.locator(".reasons").textContent();
  },
  async revisions(page) {
    await open(page);
    await show(page, "revisions");
    seen.head = await page.getByRole("region", { name: "Revisions side by side" }).locator("thead th").allTextContents();
    seen.rows = await rows(page, "Revisions side by side");
  },
  async estimates(page) {
    await open(page);
    await show(page, "estimates");
    seen.tools = await rows(page, "By tool").catch(() => []);
    seen.tools = await page.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  },
  async requests(page) {
    await open(page);
    await show(page, "requests");
    seen.all = (await rows(page, "Requests")).length;
    await page.getByLabel("Tool").fill("list_*");
    await page.getByLabel("Tool").press("Enter");
    await page.getByRole("link", { name: "Clear" }).waitFor();
    seen.filtered = (await rows(page, "Requests")).map((row) => row[1]);
    await page.locator("tbody tr", { hasNotText: "read of" }).getByRole("link").first().press("Enter");
    await page.getByRole("heading", { name: "Decision" }).waitFor();
    seen.facts = await page.locator(".facts").textContent();
    seen.reads = await page.locator(".reads li").allTextContents();
    seen.command = await page.locator(".snippet code").textContent();
    await page.getByRole("link", { name: "All requests" }).press("Enter");
    await page.getByRole("form", { name: "Filters" }).waitFor();
  },
  async updates(page) {
    await open(page);
    const calls = () => page.locator(".tile", { hasText: "Calls" }).first().locator("strong").textContent();
    seen.before = await calls();
    await page.getByText("Show the numbers").press("Enter");
    // The test makes a call when it reads this line.
    process.stdout.write("shown\n");
    await page.waitForFunction((before) => [...document.querySelectorAll(".tile")].some((tile) => tile.querySelector("dt").textContent === "Calls"
      && tile.querySelector("strong").textContent !== before), seen.before);
    seen.after = await calls();
    // What is open and what has the focus remains so.
    seen.open = await page.locator("details[open]").count();
    seen.focused = await page.evaluate(() => document.activeElement.dataset.key);
  },
  async screens(page) {
    await open(page, "7d");
    const ground = async (scheme) => {
      await page.emulateMedia({ colorScheme: scheme });
      return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    };
    seen.grounds = [await ground("light"), await ground("dark")];
    seen.overflow = {};
    for (const width of [1280, 400]) {
      await page.setViewportSize({ width, height: 900 });
      for (const scheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: scheme });
        for (const view of VIEWS) {
          await show(page, view);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (over > 0) seen.overflow[`${view} ${width}`] = over;
          if (folder) await page.screenshot({ path: `${folder}/${view}-${scheme}-${width}.png` });
        }
      }
    }
  },
  async untrusted(page) {
    await open(page, "7d");
    seen.names = [];
    for (const view of ["overview", "tools", "requests"]) {
      await show(page, view);
      seen.names.push((await page.locator("main").textContent()).includes("<img src=x onerror=alert(1)>"));
    }
    seen.images = await page.locator("img, script:not([src]), [style*=url]").count();
    seen.blocked = await page.evaluate(() => new Promise((resolve) => {
      const script = document.createElement("script");
      script.textContent = "window.ran = true";
      addEventListener("securitypolicyviolation", () => resolve(window.ran === undefined), { once: true });
      document.head.append(script);
      // A script without `src` runs while it is appended.
      if (window.ran) resolve(false);
    }));
    // The violation that the line above caused on purpose.
    seen.purposeful = forbidden.reports.splice(0).length;
  },
  async empty(page) {
    await open(page, "7d");
    seen.texts = {};
    for (const view of VIEWS) {
      await show(page, view);
      seen.texts[view] = await page.locator(".empty .title").textContent();
    }
  },
  async accessible(page) {
    await watched(page, "7d");
    const source = await readFile(createRequire(`${process.env.PEERS}/`).resolve("axe-core/axe.min.js"), "utf8");
    seen.violations = [];
    const check = async (name) => {
      await page.evaluate(source);
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const { id, nodes } of found.violations) seen.violations.push(`${name}: ${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
      seen.checked = (seen.checked ?? 0) + 1;
    };
    await check("sign-in");
    await signIn(page);
    await page.locator("h1", { hasText: "Overview" }).waitFor();
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const view of VIEWS) {
        await show(page, view);
        await check(`${view} ${scheme}`);
      }
    }
    await page.getByRole("link", { name: /details/ }).first().click();
    await page.getByRole("heading", { name: "Decision" }).waitFor();
    await check("request");
  },
};

const isGuessing = scenario === "sign-in" || scenario === "guesses";
try {
  await withPage(scenarios[scenario], { viewport: { width: 1280, height: 900 }, colorScheme: "light" });
} catch (error) {
  // A refused key and the purposeful violation are errors in the console, too.
  const expected = isGuessing ? /status of 4(01|29)/ : scenario === "untrusted" ? /Content Security Policy/ : undefined;
  const told = String(error.message).replace("the page says: ", "").split("; ");
  if (expected === undefined || !told.every((text) => expected.test(text))) throw error;
}
process.stdout.write(JSON.stringify({ ...seen, ...forbidden }));
