// Cursor stores: they hold the rest of an answer until its cursor expires.

/** A store in memory. Evicts the least recently used entries beyond its size limit. */
export class MemoryStore {
  #entries = new Map();
  #bytes = 0;
  #limit;
  #now;

  constructor({ bytes = 32 << 20, now = Date.now } = {}) {
    this.#limit = bytes;
    this.#now = now;
  }

  /** The size of all entries in bytes. */
  get bytes() {
    return this.#bytes;
  }

  get(keys) {
    return keys.map((key) => {
      const entry = this.#entries.get(key);
      if (entry === undefined) return undefined;
      this.#entries.delete(key);
      if (entry.expires <= this.#now()) {
        this.#bytes -= entry.value.length;
        return undefined;
      }
      // A Map keeps insertion order, so its first entry is the least recently used.
      this.#entries.set(key, entry);
      return entry.value;
    });
  }

  put(entries, ttlMs) {
    const wanted = entries.reduce((sum, { value }) => sum + value.length, 0);
    if (wanted > this.#limit) throw new Error(`context-guard: ${wanted} bytes exceed the store limit of ${this.#limit} bytes`);
    const expires = this.#now() + ttlMs;
    this.delete(entries.map(({ key }) => key));
    for (const { key, value } of entries) {
      this.#entries.set(key, { value, expires });
      this.#bytes += value.length;
    }
    for (const key of this.#entries.keys()) {
      if (this.#bytes <= this.#limit) break;
      this.delete([key]);
    }
  }

  extend(keys, ttlMs) {
    const expires = this.#now() + ttlMs;
    for (const key of keys) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) entry.expires = Math.max(entry.expires, expires);
    }
  }

  delete(keys) {
    for (const key of keys) {
      this.#bytes -= this.#entries.get(key)?.value.length ?? 0;
      this.#entries.delete(key);
    }
  }
}

const TABLE = "entries";
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** A store in the browser's database. Cursors outlive the page if the signing keys do. */
export class IndexedDBStore {
  #database;
  #now;

  constructor({ name = "context-guard", now = Date.now } = {}) {
    this.#now = now;
    const open = indexedDB.open(name, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(TABLE, { keyPath: "key" }).createIndex("expires", "expires");
    this.#database = done(open);
    // Each use reports a failure; this avoids an unhandled rejection until then.
    this.#database.catch(() => {});
  }

  async #write(work) {
    const transaction = (await this.#database).transaction(TABLE, "readwrite");
    const finished = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    const table = transaction.objectStore(TABLE);
    // Each write deletes the expired entries.
    table.index("expires").openKeyCursor(IDBKeyRange.upperBound(this.#now())).onsuccess = ({ target: { result } }) => {
      if (result === null) return;
      table.delete(result.primaryKey);
      result.continue();
    };
    await work(table);
    await finished;
  }

  async get(keys) {
    const table = (await this.#database).transaction(TABLE).objectStore(TABLE);
    const entries = await Promise.all(keys.map((key) => done(table.get(key))));
    return entries.map((entry) => (entry !== undefined && entry.expires > this.#now() ? entry.value : undefined));
  }

  put(entries, ttlMs) {
    const expires = this.#now() + ttlMs;
    return this.#write((table) => entries.forEach(({ key, value }) => table.put({ key, value, expires })));
  }

  extend(keys, ttlMs) {
    const expires = this.#now() + ttlMs;
    return this.#write(async (table) => {
      for (const key of keys) {
        const entry = await done(table.get(key));
        if (entry !== undefined && entry.expires > this.#now()) table.put({ ...entry, expires: Math.max(entry.expires, expires) });
      }
    });
  }

  delete(keys) {
    return this.#write((table) => keys.forEach((key) => table.delete(key)));
  }
}
