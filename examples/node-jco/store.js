// The store of the guard: it holds the rest of an answer until its cursor expires.
export class MemoryStore {
  #entries = new Map();

  get = (keys) => keys.map((key) => this.#live(key)?.value);

  put = (entries, ttlMs) => {
    // The bytes are views of the guard's memory, which changes: keep copies.
    for (const { key, value } of entries) this.#entries.set(key, { value: value.slice(), expires: Date.now() + Number(ttlMs) });
    for (const key of this.#entries.keys()) this.#live(key);
  };

  extend = (keys, ttlMs) => {
    for (const key of keys) {
      const entry = this.#live(key);
      if (entry !== undefined) entry.expires = Math.max(entry.expires, Date.now() + Number(ttlMs));
    }
  };

  delete = (keys) => keys.forEach((key) => this.#entries.delete(key));

  // Returns an entry, or deletes it if it expired.
  #live(key) {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.expires > Date.now()) return entry;
    this.#entries.delete(key);
    return undefined;
  }
}
