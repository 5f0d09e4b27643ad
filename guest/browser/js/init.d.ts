export * from "./index.js";

/** The module `context_guard_bg.wasm`: its URL, the response to a request for it, its bytes, or compiled. */
export type ModuleSource = string | URL | Response | BufferSource | WebAssembly.Module;

/**
 * Loads the module. Call it once, and await it before the first guard is made; later calls return
 * the same promise. Without a source, loads the file beside the package's own. A relative URL is
 * resolved against the page. Rejects if the module cannot be fetched or compiled; then it can be
 * called again.
 */
export declare function init(source?: ModuleSource | Promise<ModuleSource>): Promise<void>;
