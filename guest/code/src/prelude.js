// The interface of programs: tools, open, Rows and console. Evaluates to a function that the sandbox
// calls once for each run, with the functions of the host.
(function (native) {
  "use strict";
  const { parse, stringify, rawJSON } = JSON;
  const waiting = new Map();

  class ToolError extends Error {
    // `caller` is an error made where the program called the tool.
    constructor(tool, message, caller) {
      super(message);
      this.name = "ToolError";
      this.tool = tool;
      this.stack = caller.stack;
    }
  }

  // Parses JSON, with integers that are not exact as numbers as BigInt.
  function exact(text) {
    return parse(text, (key, value, { source }) => {
      if (typeof value !== "number" || Number.isSafeInteger(value) || !Number.isInteger(value)) {
        return value;
      }
      try {
        return BigInt(source);
      } catch {
        return value; // 1e30
      }
    });
  }

  const decoded = ([isText, value]) => (isText ? exact(value) : value);

  // Parses a text if it is a JSON object or array.
  function parsed(text) {
    const first = text.trimStart()[0];
    if (first !== "{" && first !== "[") return text;
    try {
      return native.hasLong(text) ? exact(text) : parse(text);
    } catch {
      return text;
    }
  }

  // Results of tools: structured content, else a text, parsed if it is JSON, else the content blocks.
  function block(content) {
    return content.type === "text" ? parsed(content.text) : content;
  }

  function call(server, tool, args) {
    const name = server ? `${server}.${tool}` : tool;
    if (args !== undefined && (args === null || typeof args !== "object" || Array.isArray(args))) {
      return Promise.reject(
        new TypeError(`${name}: pass one object with the arguments by name, as in ${name}({id: 1})`),
      );
    }
    if (args && "_guard" in args) {
      return Promise.reject(new TypeError(`${name}: results in programs are whole; leave out _guard`));
    }
    const caller = new Error();
    return new Promise((resolve, reject) => {
      const job = native.start(server, tool, write(args ?? {}));
      waiting.set(job, { resolve, reject, name, caller });
    });
  }

  function settle(job, error, structured, blocks, isError, isWrapped) {
    const { resolve, reject, name, caller } = waiting.get(job);
    waiting.delete(job);
    if (error !== undefined) return reject(new ToolError(name, `${name}: ${error}`, caller));
    const content = blocks === undefined ? [] : decoded(blocks);
    if (isError) {
      const texts = content.map((part) => (part.type === "text" ? part.text : part.type));
      return reject(new ToolError(name, `${name}: ${texts.join("\n")}`, caller));
    }
    if (structured !== undefined) {
      const value = decoded(structured);
      if (!isWrapped) return resolve(value);
      return resolve(typeof value.result === "string" ? parsed(value.result) : value.result);
    }
    const values = content.map(block);
    resolve(values.length === 1 ? values[0] : values);
  }

  const hidden = (key) => typeof key !== "string" || key === "then" || key === "toJSON";
  const refuse = () => {
    throw new TypeError("tools cannot be changed");
  };
  const fixed = { set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse };

  // The names of the servers, under "", and of the tools of each server, once they are asked for.
  const names = new Map();

  function namesOf(server) {
    if (!names.has(server)) names.set(server, native.names(server));
    return names.get(server);
  }

  // Lets Object.keys, `in` and `for` see the names of a server, or of all servers.
  function listed(server) {
    return {
      has: (_, name) => namesOf(server).includes(name),
      ownKeys: () => namesOf(server),
      getOwnPropertyDescriptor: (_, name) =>
        namesOf(server).includes(name)
          ? { value: undefined, enumerable: true, configurable: true }
          : undefined,
    };
  }

  function serverOf(server) {
    // An arrow function has no members that every list of keys must contain.
    return new Proxy(() => {}, {
      ...fixed,
      ...listed(server),
      get: (_, tool) => (hidden(tool) ? undefined : (args) => call(server, tool, args)),
      apply: (_, self, [args]) => call("", server, args),
    });
  }

  // Programs write server.tool, clients see server__tool.
  const clientName = (name) => name.replace(".", "__");

  const tools = new Proxy(Object.create(null), {
    ...fixed,
    ...listed(""),
    get(_, server) {
      if (hidden(server)) return undefined;
      if (server === "$search") {
        return (query, options) => call("$", "search", { ...options, queries: [query].flat() });
      }
      if (server === "$describe") {
        return (names) => call("$", "describe", { names: [names].flat().map(clientName) });
      }
      return serverOf(server);
    },
  });

  // A function of a record: itself, or the path of a field such as "price.total".
  function field(of) {
    if (typeof of === "function") return of;
    if (typeof of !== "string") {
      throw new TypeError("pass a function of the record, or the name of a field");
    }
    const steps = of.split(".");
    return (row) => {
      const own = row?.[of];
      if (own !== undefined) return own;
      return steps.reduce((value, step) => value?.[step], row);
    };
  }

  function numeric(of) {
    const value = field(of ?? ((row) => row));
    return (row) => {
      const found = value(row);
      if (typeof found === "number") return found;
      return typeof found === "string" && found.trim() !== "" ? Number(found) : NaN;
    };
  }

  // Records or lines, read when they are used. Each use reads them again.
  class Rows {
    #source;
    constructor(source) {
      this.#source = source;
    }
    [Symbol.iterator]() {
      return this.#source();
    }
    #derive(generator) {
      const source = this.#source;
      return new Rows(() => generator(source()));
    }
    filter(keep) {
      const test = field(keep);
      return this.#derive(function* (rows) {
        let at = 0;
        for (const row of rows) if (test(row, at++)) yield row;
      });
    }
    map(change) {
      const value = field(change);
      return this.#derive(function* (rows) {
        let at = 0;
        for (const row of rows) yield value(row, at++);
      });
    }
    flatMap(change) {
      const value = field(change);
      return this.#derive(function* (rows) {
        for (const row of rows) {
          const found = value(row);
          if (Array.isArray(found)) yield* found;
          else if (found !== undefined) yield found;
        }
      });
    }
    take(count) {
      return this.#derive(function* (rows) {
        let left = count;
        if (left <= 0) return;
        for (const row of rows) {
          yield row;
          if (--left <= 0) return;
        }
      });
    }
    skip(count) {
      return this.#derive(function* (rows) {
        let left = count;
        for (const row of rows) if (left-- <= 0) yield row;
      });
    }
    distinct(of) {
      const value = field(of ?? ((row) => row));
      return this.#derive(function* (rows) {
        const seen = new Set();
        for (const row of rows) {
          const key = value(row);
          if (!seen.has(key)) {
            seen.add(key);
            yield row;
          }
        }
      });
    }
    toArray() {
      return [...this];
    }
    sort(compare) {
      return this.toArray().sort(compare);
    }
    slice(start, end) {
      return this.toArray().slice(start, end);
    }
    join(separator) {
      return this.toArray().join(separator);
    }
    get length() {
      throw new TypeError("rows have no length: use count(), or toArray().length");
    }
    count(keep) {
      const test = keep === undefined ? () => true : field(keep);
      let count = 0;
      for (const row of this) if (test(row)) count++;
      return count;
    }
    reduce(step, ...first) {
      return this.toArray().reduce(step, ...first);
    }
    forEach(visit) {
      let at = 0;
      for (const row of this) visit(row, at++);
    }
    find(keep) {
      const test = field(keep);
      for (const row of this) if (test(row)) return row;
      return undefined;
    }
    some(keep) {
      const test = field(keep);
      for (const row of this) if (test(row)) return true;
      return false;
    }
    every(keep) {
      const test = field(keep);
      for (const row of this) if (!test(row)) return false;
      return true;
    }
    sum(of) {
      const value = numeric(of);
      let sum = 0;
      for (const row of this) {
        const number = value(row);
        if (!Number.isNaN(number)) sum += number;
      }
      return sum;
    }
    avg(of) {
      const value = numeric(of);
      let [sum, count] = [0, 0];
      for (const row of this) {
        const number = value(row);
        if (!Number.isNaN(number)) [sum, count] = [sum + number, count + 1];
      }
      return count ? sum / count : null;
    }
    groupBy(of) {
      const key = field(of);
      const groups = Object.create(null);
      for (const row of this) (groups[key(row)] ??= []).push(row);
      return groups;
    }
    countBy(of) {
      const key = field(of);
      const counts = Object.create(null);
      for (const row of this) {
        const name = key(row);
        counts[name] = (counts[name] ?? 0) + 1;
      }
      return counts;
    }
    sumBy(of, amount) {
      const [key, value] = [field(of), numeric(amount)];
      const sums = Object.create(null);
      for (const row of this) {
        const [name, number] = [key(row), value(row)];
        sums[name] = (sums[name] ?? 0) + (Number.isNaN(number) ? 0 : number);
      }
      return sums;
    }
    // The records with the largest values, largest first. Keeps no others in memory.
    top(count, of) {
      const value = field(of ?? ((row) => row));
      const less = (a, b) => (typeof a === "number" && typeof b === "number" ? a < b : `${a}` < `${b}`);
      let best = [];
      for (const row of this) {
        const key = value(row);
        if (key === undefined || key === null || Number.isNaN(key)) continue;
        if (best.length === count && !less(best[count - 1].key, key)) continue;
        let at = best.length;
        while (at > 0 && less(best[at - 1].key, key)) at--;
        best.splice(at, 0, { key, row });
        if (best.length > count) best.pop();
      }
      return best.map((entry) => entry.row);
    }
  }

  // The stored answer to which a cursor leads.
  function open(cursor) {
    if (typeof cursor !== "string") throw new TypeError("open needs a cursor, which is a text");
    const [handle, count, hasRecords] = native.open(cursor);
    const rows = () =>
      new Rows(function* () {
        let at = 0;
        while (at < count) {
          const [part, next] = native.rows(handle, at);
          yield* decoded(part);
          if (next <= at) return;
          at = next;
        }
      });
    // The methods of rows work on the answer, too.
    const methods = {};
    for (const name of Object.getOwnPropertyNames(Rows.prototype)) {
      if (name !== "constructor" && name !== "count" && name !== "length") {
        methods[name] = (...args) => rows()[name](...args);
      }
    }
    return Object.freeze({
      ...methods,
      count,
      kind: hasRecords ? "records" : "lines",
      rows,
      text: () => native.whole(handle),
      value: () => {
        const text = native.whole(handle);
        return native.hasLong(text) ? exact(text) : parse(text);
      },
    });
  }

  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    try {
      return write(value) ?? String(value);
    } catch {
      return String(value);
    }
  }

  const log = (...values) => native.log(values.map(shown).join(" "));
  const console = Object.freeze({ log, info: log, warn: log, error: log, debug: log });

  const plain = (value) => {
    if (value instanceof Rows) return value.toArray();
    if (value instanceof Map) return Object.fromEntries(value);
    if (value instanceof Set) return [...value];
    if (value instanceof Error) return { name: value.name, message: value.message };
    if (typeof value === "bigint") return rawJSON(value.toString());
    if (typeof value === "number" && !Number.isFinite(value)) return null;
    return value;
  };

  // The returned value as JSON. Undefined if the program returned nothing.
  function write(value) {
    return stringify(value, function (key, converted) {
      return plain(converted);
    });
  }

  // The engine has no locales. An answer in the wrong one would be worse than none.
  for (const type of [Date, Number, BigInt, Array, Int8Array]) {
    for (const name of Object.getOwnPropertyNames(type.prototype)) {
      const original = name.startsWith("toLocale") ? type.prototype[name] : undefined;
      if (typeof original !== "function") continue;
      type.prototype[name] = function (...args) {
        if (args.length) throw new TypeError(`${name} takes no locale here: format the value yourself`);
        return original.call(this);
      };
    }
  }

  async function start(made, input) {
    let value = made;
    if (typeof value === "function") value = value(decoded(input), tools);
    return write(await value);
  }

  return {
    start,
    settle,
    globals: { tools, open, console },
    jobs: () => [...waiting.keys()],
  };
});
