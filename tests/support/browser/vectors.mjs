// Runs golden vectors through the npm package, in node and in a page.

const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

// A store without limits whose entries can be read.
class OpenStore {
  entries = new Map();
  get(keys) {
    return keys.map((key) => this.entries.get(key));
  }
  put(entries) {
    for (const { key, value } of entries) this.entries.set(key, value);
  }
}

async function outcome(ContextGuard, { policy, exchanges }, { key, now }) {
  const store = new OpenStore();
  const guard = new ContextGuard({ policy, keys: key, store, now: () => now, principal: "tester" });
  const seen = [];
  for (const exchange of exchanges) {
    const asked = await guard.onRequest(exchange.client);
    if (asked.fault !== undefined) throw asked.fault;
    if (asked.answer !== undefined) {
      seen.push({ upstream: null, client: asked.answer, record: asked.record });
      continue;
    }
    const shaped = await guard.onResponse(asked.ticket, exchange.upstream ?? "");
    if (shaped.fault !== undefined) throw shaped.fault;
    const as = (changed, text) => (changed ? text : "as it came");
    seen.push({ upstream: as(asked.changed, asked.forward), client: as(shaped.changed, shaped.message), record: shaped.record ?? null });
  }
  return { exchanges: seen, stored: Object.fromEntries([...store.entries].map(([key, value]) => [key, base64(value)])) };
}

/** Returns the outcome of each case, or its error, by name. */
export async function outcomes(ContextGuard, { cases, ...options }) {
  const all = {};
  for (const [name, one] of Object.entries(cases)) {
    all[name] = await outcome(ContextGuard, one, options).catch((error) => ({ error: String(error) }));
  }
  return all;
}
