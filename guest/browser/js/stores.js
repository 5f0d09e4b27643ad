// Cursor stores: where the rest of an answer is, until its cursor has expired.

/** In memory, the least recently used give way beyond so many bytes. */
export class MemoryStore {
  #entries = new Map();
  #bytes = 0;
  #limit;
  #now;

  constructor({ bytes = 32 << 20, now = Date.now } = {}) {
    this.#limit = bytes;
    this.#now = now;
  }

  /** Bytes that are held. */
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
      // The last of a Map is the one that was used last.
      this.#entries.set(key, entry);
      return entry.value;
    });
  }

  put(entries, ttlMs) {
    const wanted = entries.reduce((sum, { value }) => sum + value.length, 0);
    if (wanted > this.#limit) throw new Error(`${wanted} bytes do not fit a store of ${this.#limit}`);
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

/** In the browser's database: cursors outlive the page, given signing keys that do. */
export class IndexedDBStore {
  #database;
  #now;

  constructor({ name = "context-guard", now = Date.now } = {}) {
    this.#now = now;
    const open = indexedDB.open(name, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(TABLE, { keyPath: "key" }).createIndex("expires", "expires");
    this.#database = done(open);
    // Whoever uses it hears of a failure.
    this.#database.catch(() => {});
  }

  async #write(work) {
    const transaction = (await this.#database).transaction(TABLE, "readwrite");
    const finished = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    const table = transaction.objectStore(TABLE);
    // What has expired goes with the next that comes.
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
