// The guard: messages in, messages out, and a loop round the store. All shaping is the core's.
import { MemoryStore } from "./stores.js";
import { Caller, Core, Fetched, Secret } from "./wasm.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

// A message as bytes, and how to give one back in the form in which it came.
function form(message) {
  if (message instanceof Uint8Array) return { bytes: message, back: (bytes) => bytes };
  if (typeof message === "string") return { bytes: encoder.encode(message), back: (bytes) => decoder.decode(bytes) };
  return { bytes: encoder.encode(JSON.stringify(message)), back: (bytes) => JSON.parse(decoder.decode(bytes)) };
}

/** A policy that has faults; each is in the message, with its path. */
export class PolicyError extends Error {
  name = "PolicyError";
}

export class ContextGuard {
  #core;
  #store;
  #now;
  #onRecord;
  #caller;

  constructor({ policy = {}, keys, store = new MemoryStore(), now = Date.now, principal = "browser", upstream = "", onRecord } = {}) {
    const secrets = (keys === undefined ? [crypto.getRandomValues(new Uint8Array(32))] : [keys].flat()).map((key) => (typeof key === "string" ? encoder.encode(key) : key));
    const text = typeof policy === "string" ? policy : JSON.stringify(policy);
    try {
      this.#core = new Core(text, secrets.map((secret) => new Secret(secret)));
    } catch (error) {
      throw new PolicyError(`context-guard: ${error.message}`);
    }
    this.#store = store;
    this.#now = now;
    this.#onRecord = onRecord;
    this.#caller = { principal, upstream };
  }

  /** What is odd in the policy, but allowed. */
  get warnings() {
    return this.#core.warnings;
  }

  #who({ principal = this.#caller.principal, upstream = this.#caller.upstream, protocolVersion = "" } = {}, down) {
    return new Caller(principal, upstream, protocolVersion, down);
  }

  /** Looks at a request: it is sent on (`forward`, perhaps changed), or answered (`answer`). */
  async onRequest(message, context) {
    const { bytes, back } = form(message);
    let fault;
    // What a store that fails holds is not there: the core knows what to do then.
    for (const down of this.#store === null ? [true] : [false, true]) {
      const caller = this.#who(context, down);
      const fetched = new Fetched();
      try {
        return await this.#ask(caller, fetched, bytes, down, (step) => {
          const changed = step.take_message();
          if (step.kind === "answer") return { answer: back(changed), record: this.#told(step.record) };
          const ticket = step.take_ticket();
          return { forward: changed === undefined ? message : back(changed), changed: changed !== undefined, ticket: ticket.length > 0 ? ticket : undefined };
        });
      } catch (error) {
        fault = error;
      } finally {
        caller.free();
        fetched.free();
      }
    }
    // The request is the server's to answer; its answer is held to the byte limit.
    return { forward: message, changed: false, ticket: new Uint8Array(), fault };
  }

  async #ask(caller, fetched, bytes, down, decide) {
    for (;;) {
      const step = this.#core.request(caller, bytes, fetched, this.#now());
      try {
        const keys = step.keys;
        if (step.kind === "load") {
          const values = down ? [] : await this.#store.get(keys);
          keys.forEach((key, at) => fetched.add(key, values[at] ?? undefined));
          continue;
        }
        if (keys.length > 0 && !down) await this.#store.extend?.(keys, step.ttl_ms);
        await this.#keep(step);
        return decide(step);
      } finally {
        step.free();
      }
    }
  }

  /** Looks at the response to a request that was sent on with this ticket. */
  async onResponse(ticket, message, context) {
    if (ticket === undefined) return { message, changed: false };
    const { bytes, back } = form(message);
    let fault;
    // What cannot be kept may still be fetched again.
    for (const down of this.#store === null ? [true] : [false, true]) {
      const caller = this.#who(context, down);
      try {
        const step = this.#core.response(caller, ticket, bytes, this.#now());
        try {
          const changed = step.take_message();
          const must = step.must_be_stored;
          await this.#keep(step).catch((error) => {
            if (must) throw error;
          });
          const record = this.#told(step.record);
          return { message: changed === undefined ? message : back(changed), changed: changed !== undefined, record };
        } finally {
          step.free();
        }
      } catch (error) {
        fault = error;
      } finally {
        caller.free();
      }
    }
    const limited = this.#core.limit(bytes);
    return { message: limited === undefined ? message : back(limited), changed: limited !== undefined, fault };
  }

  /** Tokens of a text, or of a value as JSON, as the policy estimates them. */
  estimateTokens(value, { upstream = this.#caller.upstream, name = "" } = {}) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return this.#core.estimate(upstream, name, encoder.encode(text));
  }

  async #keep(step) {
    if (step.entries === 0) return;
    if (this.#store === null) throw new Error("there is no store");
    const entries = [];
    for (let key = step.next_key(); key !== undefined; key = step.next_key()) entries.push({ key, value: step.take_value() });
    await this.#store.put(entries, step.ttl_ms);
  }

  #told(json) {
    const record = json === undefined ? undefined : JSON.parse(json);
    if (record !== undefined) this.#onRecord?.(record);
    return record;
  }
}
