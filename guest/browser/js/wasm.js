// The module, ready to use: in a page it is fetched from beside this file, in node it is read.
import init from "./context_guard.js";

const url = new URL("./context_guard_bg.wasm", import.meta.url);
const files = "node:fs/promises";
const bytes = url.protocol === "file:" ? (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(url) : fetch(url);
await init({ module_or_path: bytes });

export { Caller, Core, Fetched, Secret } from "./context_guard.js";
