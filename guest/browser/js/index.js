export { ContextGuard, PolicyError } from "./loaded.js";
export { IndexedDBStore, MemoryStore } from "./stores.js";
export { guardTransport } from "./transport.js";
