export { ContextGuard, PolicyError } from "./guard.js";
export { IndexedDBStore, MemoryStore } from "./stores.js";
export { guardTransport } from "./transport.js";
