// Wraps a client transport of either SDK version, so that its messages pass through the guard.

/** Wraps a transport. Keeps the order of messages. Passes all but requests and responses, also those in
 * batches, unchanged. */
export function guardTransport(transport, guard) {
  const waiting = new Map();
  const own = { onmessage: undefined };
  let protocolVersion = "";
  let last = Promise.resolve();
  // Processes messages one after the other, in the order of arrival.
  const inOrder = (work) => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  const deliver = (message, extra) => own.onmessage?.(message, extra);

  const isRequest = (message) => message.method !== undefined && message.id !== undefined;

  // Servers of one name may have different tools.
  const server = crypto.getRandomValues(new Uint32Array(4)).join("-");

  // Returns the response for the client in place of the server's. Other messages are unchanged.
  async function shape(message) {
    const isResponse = message.method === undefined && message.id !== undefined;
    const ticket = isResponse ? waiting.get(message.id) : undefined;
    if (ticket === undefined) return message;
    waiting.delete(message.id);
    return (await guard.onResponse(ticket, message, { protocolVersion, server })).message;
  }

  transport.onmessage = (message, extra) =>
    void inOrder(async () => {
      // A batch is an array of messages (MCP revision 2025-03-26).
      if (!Array.isArray(message)) return deliver(await shape(message), extra);
      const shaped = [];
      for (const one of message) shaped.push(await shape(one));
      deliver(shaped, extra);
    });

  // The ids of requests that the guard decides about, which may wait for a module. The value is true
  // if the client cancelled the request meanwhile.
  const undecided = new Map();

  // Returns the message for the server. Undefined: the guard answers the request itself, or the client
  // cancelled it.
  async function admit(message) {
    if (message.method === "notifications/cancelled") {
      const id = message.params?.requestId;
      waiting.delete(id);
      if (undecided.has(id)) undecided.set(id, true);
    }
    if (!isRequest(message)) return message;
    undecided.set(message.id, false);
    let verdict;
    try {
      verdict = await guard.onRequest(message, { protocolVersion, server });
      if (undecided.get(message.id)) return undefined;
    } finally {
      undecided.delete(message.id);
    }
    if (verdict.answer !== undefined) {
      void inOrder(() => deliver(verdict.answer));
      return undefined;
    }
    if (verdict.ticket !== undefined) waiting.set(message.id, verdict.ticket);
    return verdict.forward;
  }

  async function send(message, options) {
    const isBatch = Array.isArray(message);
    const admitted = [];
    for (const one of isBatch ? message : [message]) {
      const forward = await admit(one);
      if (forward !== undefined) admitted.push(forward);
    }
    if (admitted.length === 0 && !(isBatch && message.length === 0)) return;
    try {
      return await transport.send(isBatch ? admitted : admitted[0], options);
    } catch (error) {
      for (const { id } of admitted.filter(isRequest)) waiting.delete(id);
      throw error;
    }
  }

  return new Proxy(transport, {
    get(target, name) {
      if (name === "onmessage") return own.onmessage;
      if (name === "send") return send;
      // A private member is accessible only through the original object, not through the proxy.
      const value = Reflect.get(target, name, target);
      if (name === "setProtocolVersion") {
        return (version) => {
          protocolVersion = version;
          return value?.call(target, version);
        };
      }
      return typeof value === "function" && !String(name).startsWith("on") ? value.bind(target) : value;
    },
    set(target, name, value) {
      if (name === "onmessage") own.onmessage = value;
      else Reflect.set(target, name, value, target);
      return true;
    },
  });
}
