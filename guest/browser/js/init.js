// The package without its own loading: call `init` before the first guard is made.
export { ContextGuard, PolicyError } from "./guard.js";
export { init } from "./load.js";
export { IndexedDBStore, MemoryStore } from "./stores.js";
export { guardTransport } from "./transport.js";
