// The guard, after its module is loaded.
import "./wasm.js";

export { ContextGuard, PolicyError } from "./guard.js";
