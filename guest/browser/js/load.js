// Loads the module of the core from a URL, a response, bytes, or a compiled module.
import initialize from "./context_guard.js";

let loading;
let loaded = false;

/** Returns true after the module was loaded. */
export const isLoaded = () => loaded;

// Returns bytes or a response. Node.js cannot fetch file URLs.
async function fetched(url) {
  if (url.protocol !== "file:") return fetch(url);
  const files = "node:fs/promises";
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(url);
}

async function load(source) {
  const given = await source;
  const isUrl = given === undefined || typeof given === "string" || given instanceof URL;
  // The literal path lets bundlers find the file.
  const url = given === undefined ? new URL("./context_guard_bg.wasm", import.meta.url) : isUrl ? new URL(given, globalThis.location?.href) : undefined;
  const module = url === undefined ? given : await fetched(url);
  if (typeof Response === "function" && module instanceof Response && !module.ok) {
    throw new Error(`context-guard: the module cannot be loaded: ${module.url} answers ${module.status}`);
  }
  await initialize({ module_or_path: module });
  loaded = true;
}

/** Loads the module, unless it is loaded. A failed attempt can be repeated with another source. */
export function init(source) {
  loading ??= load(source).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}
