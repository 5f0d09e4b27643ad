// The guard: a loop around the store. The core does all shaping.
import { MemoryStore } from "./stores.js";
import { core, jq } from "./load.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

// Returns a message as bytes, and a function that converts bytes back to the form of the message.
function toBytes(message) {
  if (message instanceof Uint8Array) return { bytes: message, back: (bytes) => bytes };
  if (typeof message === "string") return { bytes: encoder.encode(message), back: (bytes) => decoder.decode(bytes) };
  return { bytes: encoder.encode(JSON.stringify(message)), back: (bytes) => JSON.parse(decoder.decode(bytes)) };
}

/** An invalid policy. The message lists each issue with its path. */
export class PolicyError extends Error {
  name = "PolicyError";
}

export class ContextGuard {
  #start;
  #base;
  #withJq;
  #store;
  #now;
  #onRecord;
  #caller;

  constructor({ policy = {}, keys, store = new MemoryStore(), now = Date.now, principal = "browser", upstream = "", onRecord } = {}) {
    if (!core.isLoaded) throw new Error("context-guard: the module is not loaded: await init() before a guard is made");
    const secrets = (keys === undefined ? [crypto.getRandomValues(new Uint8Array(32))] : [keys].flat()).map((key) => (typeof key === "string" ? encoder.encode(key) : new Uint8Array(key)));
    const text = typeof policy === "string" ? policy : JSON.stringify(policy);
    // Each module has its own core, with the same policy and keys.
    this.#start = (bindings) => ({ bindings, core: new bindings.Core(text, secrets.map((secret) => new bindings.Secret(secret))) });
    try {
      this.#base = this.#start(core.bindings);
    } catch (error) {
      throw new PolicyError(`context-guard: ${error.message}`);
    }
    this.#store = store;
    this.#now = now;
    this.#onRecord = onRecord;
    this.#caller = { principal, upstream };
  }

  /** Issues that do not stop the policy. */
  get warnings() {
    return this.#base.core.warnings;
  }

  // Returns the result of `work` with the core. If it is undefined, the message needs jq: returns the
  // result with the module that has it or, if that cannot be loaded, with the reason.
  async #run({ principal = this.#caller.principal, upstream = this.#caller.upstream, protocolVersion = "", server = "" } = {}, storeUnavailable, work) {
    const run = async (module, failure) => {
      const caller = new module.bindings.Caller(principal, upstream, protocolVersion, storeUnavailable, server, failure);
      try {
        return await work(module, caller);
      } finally {
        caller.free();
      }
    };
    const done = await run(this.#base);
    if (done !== undefined) return done;
    try {
      await jq.load();
      this.#withJq ??= this.#start(jq.bindings);
    } catch (error) {
      return run(this.#base, `jq cannot run, because context_guard_jq_bg.wasm cannot be loaded (${error.message}; serve it beside the JavaScript of context-guard, or pass its URL to init as jq)`);
    }
    return (await run(this.#withJq)) ?? run(this.#base, "jq cannot run, because the module that init got as jq has no jq");
  }

  /** Decides about a request: forward it (`forward`), or answer it (`answer`). */
  async onRequest(message, context) {
    const { bytes, back } = toBytes(message);
    let fault;
    // If the store fails, try again without it: the core then treats every entry as absent.
    for (const storeUnavailable of this.#store === null ? [true] : [false, true]) {
      try {
        return await this.#run(context, storeUnavailable, (module, caller) =>
          this.#runRequest(module, caller, bytes, storeUnavailable, (step) => {
            const changed = step.take_message();
            if (step.kind === "answer") return { answer: back(changed), record: this.#report(step.record) };
            const ticket = step.take_ticket();
            return { forward: changed === undefined ? message : back(changed), changed: changed !== undefined, ticket: ticket.length > 0 ? ticket : undefined };
          }),
        );
      } catch (error) {
        fault = error;
      }
    }
    // Forward the request. An empty ticket marks its answer for the byte limit.
    return { forward: message, changed: false, ticket: new Uint8Array(), fault };
  }

  // Returns undefined if the request needs jq, which the module lacks.
  async #runRequest({ bindings, core }, caller, bytes, storeUnavailable, decide) {
    const fetched = new bindings.Fetched();
    try {
      for (;;) {
        const step = core.request(caller, bytes, fetched, this.#now());
        try {
          const { kind, keys } = step;
          if (kind === "jq") return undefined;
          if (kind === "load") {
            const values = storeUnavailable ? [] : await this.#store.get(keys);
            keys.forEach((key, at) => fetched.add(key, values[at] ?? undefined));
            continue;
          }
          if (keys.length > 0 && !storeUnavailable) await this.#store.extend?.(keys, step.ttl_ms);
          await this.#storeEntries(step);
          return decide(step);
        } finally {
          step.free();
        }
      }
    } finally {
      fetched.free();
    }
  }

  /** Shapes the response to a request that was forwarded with this ticket. */
  async onResponse(ticket, message, context) {
    if (ticket === undefined) return { message, changed: false };
    const { bytes, back } = toBytes(message);
    let fault;
    // If the store fails, try again without it: read-only calls can be repeated instead.
    for (const storeUnavailable of this.#store === null ? [true] : [false, true]) {
      try {
        return await this.#run(context, storeUnavailable, async ({ core }, caller) => {
          const step = core.response(caller, ticket, bytes, this.#now());
          try {
            if (step.kind === "jq") return undefined;
            const changed = step.take_message();
            const must = step.must_be_stored;
            await this.#storeEntries(step).catch((error) => {
              if (must) throw error;
            });
            const record = this.#report(step.record);
            return { message: changed === undefined ? message : back(changed), changed: changed !== undefined, record };
          } finally {
            step.free();
          }
        });
      } catch (error) {
        fault = error;
      }
    }
    const limited = this.#base.core.limit(bytes);
    return { message: limited === undefined ? message : back(limited), changed: limited !== undefined, fault };
  }

  /** Returns the tokens of a text, or of a value as JSON, as the policy estimates them. */
  estimateTokens(value, { upstream = this.#caller.upstream, name = "" } = {}) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return this.#base.core.estimate(upstream, name, encoder.encode(text));
  }

  async #storeEntries(step) {
    if (step.entries === 0) return;
    if (this.#store === null) throw new Error("context-guard: no store is configured");
    const entries = [];
    for (let key = step.next_key(); key !== undefined; key = step.next_key()) entries.push({ key, value: step.take_value() });
    await this.#store.put(entries, step.ttl_ms);
  }

  #report(json) {
    const record = json === undefined ? undefined : JSON.parse(json);
    if (record !== undefined) {
      try {
        this.#onRecord?.(record);
      } catch (error) {
        // A fault of the caller is none of the store: the answer remains.
        console.error("context-guard: onRecord failed:", error);
      }
    }
    return record;
  }
}
