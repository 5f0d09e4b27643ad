export * from "./index.js";

/** A module, such as `context_guard_bg.wasm`: its URL, the response to a request for it, its bytes, or compiled. */
export type ModuleSource = string | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOptions {
  /**
   * The module `context_guard_jq_bg.wasm`, which runs programs of jq, or a function that returns it.
   * A URL is loaded, and a function is called, for the first program. Default: the file beside the
   * package's own.
   */
  jq?: ModuleSource | Promise<ModuleSource> | (() => ModuleSource | Promise<ModuleSource>);
}

/**
 * Loads the module. Call it once, and await it before the first guard is made; later calls return
 * the same promise. Without a source, loads the file beside the package's own. A relative URL is
 * resolved against the page. Rejects if the module cannot be fetched or compiled; then it can be
 * called again.
 */
export declare function init(source?: ModuleSource | Promise<ModuleSource>, options?: InitOptions): Promise<void>;
