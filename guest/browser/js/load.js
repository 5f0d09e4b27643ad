// Loads the modules of the core, each from a URL, a response, bytes, or a compiled module.
import { bind } from "./context_guard.js";

// Returns bytes or a response. Node.js cannot fetch file URLs.
async function fetched(url) {
  if (url.protocol !== "file:") return fetch(url);
  const files = "node:fs/promises";
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(url);
}

class Module {
  bindings = bind();
  isLoaded = false;
  source;
  #beside;
  #loading;

  // `beside` returns the URL of the package's own file.
  constructor(beside) {
    this.#beside = beside;
  }

  async #load() {
    const given = await (typeof this.source === "function" ? this.source() : this.source);
    const isUrl = given === undefined || typeof given === "string" || given instanceof URL;
    const url = given === undefined ? this.#beside() : isUrl ? new URL(given, globalThis.location?.href) : undefined;
    const module = url === undefined ? given : await fetched(url);
    if (typeof Response === "function" && module instanceof Response && !module.ok) {
      throw new Error(`context-guard: ${module.url} answers ${module.status}`);
    }
    await this.bindings.initialize({ module_or_path: module });
    this.isLoaded = true;
  }

  // Loads the module, unless it is loaded. A failed attempt can be repeated.
  load() {
    this.#loading ??= this.#load().catch((error) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }
}

// The literal paths let bundlers find the files.
export const core = new Module(() => new URL("./context_guard_bg.wasm", import.meta.url));
// The same core with jq, for the calls that need it.
export const jq = new Module(() => new URL("./context_guard_jq_bg.wasm", import.meta.url));

/** Loads the module, unless it is loaded. A failed attempt can be repeated with another source. */
export function init(source, options) {
  if (options?.jq !== undefined) {
    jq.source = options.jq;
    // The first program reports a failure; this avoids an unhandled rejection until then.
    jq.source.catch?.(() => {});
  }
  core.source = source;
  return core.load();
}
