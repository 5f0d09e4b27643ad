// Signing in, the address of a view, and updates.
import { catalogue } from "./catalogue.js";
import { now } from "./format.js";
import { el, empty, heading } from "./parts.js";
import { requests } from "./requests.js";
import { VIEWS } from "./views.js";

const TITLES = {
  overview: "Overview", tools: "Tools", sessions: "Sessions", upstreams: "Upstreams", catalogue: "Catalogue", revisions: "Revisions", estimates: "Estimates", requests: "Requests",
};
const views = { ...VIEWS, catalogue, requests };
const find = (id) => document.getElementById(id);
const [head, nav, main, live, range] = ["head", "nav", "main", "live", "range"].map(find);

class SignedOut extends Error {}

async function get(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  if (response.status === 401) throw new SignedOut();
  if (response.ok) return response.json();
  const text = await response.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch { /* The text is no JSON. */ }
  throw Object.assign(new Error(detail || `status ${response.status}`), { status: response.status });
}

function address() {
  const [view, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: view in views ? view : "overview", parameters: new URLSearchParams(text) };
}

let turn = 0;

/** Shows the view of the address. A later call replaces an unfinished one. */
async function render({ moved = false } = {}) {
  const mine = ++turn;
  const { view, parameters } = address();
  document.title = `${TITLES[view]} \u00b7 context-guard`;
  for (const one of nav.children) {
    if (one.dataset.view === view) {
      one.setAttribute("aria-current", "page");
      // On a narrow screen, the views scroll sideways.
      nav.scrollLeft = one.offsetLeft - nav.offsetLeft - 60;
    } else one.removeAttribute("aria-current");
  }
  main.setAttribute("aria-busy", "true");
  let shown;
  try {
    shown = await views[view]({ get, session, range: range.value, parameters });
    live.textContent = `Updated ${now()}`;
    live.className = "live on";
  } catch (error) {
    if (error instanceof SignedOut) return signIn();
    shown = error.status === 404
      ? [heading(TITLES[view]), empty("Nothing is recorded yet", error.message)]
      : [heading(TITLES[view]), el("div", { class: "empty failed", role: "alert" }, el("p", { class: "title" }, "The data cannot be read"),
        el("p", {}, error.message), el("button", { type: "button", onclick: () => render() }, "Try again"))];
    live.textContent = "";
    live.className = "live";
  }
  if (mine !== turn) return;
  replace(shown, moved);
  main.removeAttribute("aria-busy");
}

/** Replaces the content. What has the focus, is open or is typed remains so. */
function replace(shown, moved) {
  const key = document.activeElement?.dataset?.key;
  const open = [...main.querySelectorAll("details[open] > summary")].map((summary) => summary.dataset.key);
  main.replaceChildren(...shown.flat().filter(Boolean));
  const keyed = [...main.querySelectorAll("[data-key]")];
  for (const summary of keyed) if (open.includes(summary.dataset.key)) summary.parentElement.open = true;
  if (moved) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  } else if (key) keyed.find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
}

let events;
let due;

/** Renders again soon, but not while somebody types or reads older requests. */
function refresh() {
  clearTimeout(due);
  due = setTimeout(() => {
    const { view, parameters } = address();
    const isReading = view === "requests" && (parameters.has("before") || parameters.has("id"));
    const isTyping = ["INPUT", "SELECT"].includes(document.activeElement?.tagName) && main.contains(document.activeElement);
    if (document.hidden || isReading || isTyping) return;
    render();
  }, 300);
}

function connect() {
  events?.close();
  let isFirst = true;
  events = new EventSource("/admin/v1/events");
  // The first event has the state that was just shown.
  events.addEventListener("changed", () => isFirst ? isFirst = false : refresh());
  events.addEventListener("error", () => {
    live.textContent = "Connecting again\u2026";
    live.className = "live";
  });
  events.addEventListener("open", () => {
    if (live.className === "live" && head.hidden === false) refresh();
  });
}

function signIn() {
  events?.close();
  turn += 1;
  head.hidden = true;
  document.title = "Sign in \u00b7 context-guard";
  const isGateway = session.gateway;
  const problem = el("p", { id: "problem", class: "problem", role: "alert" });
  const input = el("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false",
    autocapitalize: "off", "aria-describedby": "hint problem" });
  const button = el("button", { type: "submit" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    const response = await fetch("/session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key: input.value }) })
      .catch(() => null);
    button.disabled = false;
    if (response?.ok) return start();
    problem.textContent = response === null ? "The server does not answer."
      : response.status === 401 ? (isGateway ? "This is not the admin token." : "This is not the code.")
        : response.status === 429 ? `Too many attempts. Try again in ${response.headers.get("retry-after")} s.` : await response.text();
    input.select();
    input.focus();
  };
  main.replaceChildren(el("form", { class: "sign-in", onsubmit: submit },
    el("p", { class: "brand" }, "context-guard"),
    el("h1", {}, "Sign in"),
    el("label", { for: "key" }, isGateway ? "Admin token" : "Code"), input,
    el("p", { id: "hint", class: "note" }, isGateway ? "The value of admin.token in the gateway file." : "The command context-guard dashboard has printed it."),
    problem, button));
  main.removeAttribute("aria-busy");
  input.focus();
}

let session = {};

async function start() {
  session = await get("/session");
  if (session.needs_key && !session.signed_in) return signIn();
  head.hidden = false;
  find("sign-out").hidden = !session.needs_key;
  // Only a running gateway has a catalogue.
  nav.querySelector("[data-view=catalogue]").hidden = !session.gateway;
  await render();
  connect();
}

nav.replaceChildren(...Object.entries(TITLES).map(([view, title]) => el("a", { href: `#/${view}`, "data-view": view }, title)));
try {
  range.value = localStorage.getItem("range") ?? "24h";
} catch { /* Storage is off. */ }
if (range.value === "") range.value = "24h";
range.addEventListener("change", () => {
  try {
    localStorage.setItem("range", range.value);
  } catch { /* Storage is off. */ }
  render();
});
// The link must not change the address, which names the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
find("sign-out").addEventListener("click", async () => {
  await fetch("/session", { method: "DELETE" });
  start();
});
addEventListener("hashchange", () => head.hidden || render({ moved: true }));
document.addEventListener("visibilitychange", () => document.hidden || head.hidden || refresh());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => head.hidden || render());
start().catch((error) => main.replaceChildren(empty("The server does not answer", error.message)));
