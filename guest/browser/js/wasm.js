// Loads the module: a page fetches it from the URL beside this file, Node.js reads the file.
import init from "./context_guard.js";

const url = new URL("./context_guard_bg.wasm", import.meta.url);
const files = "node:fs/promises";
const bytes = url.protocol === "file:" ? (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(url) : fetch(url);
await init({ module_or_path: bytes });

export { Caller, Core, Fetched, Secret } from "./context_guard.js";
