// Wraps a client transport of either SDK version, so that its messages pass through the guard.

/** Wraps a transport. Keeps the order of messages. Passes all but requests and responses unchanged. */
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

  transport.onmessage = (message, extra) =>
    void inOrder(async () => {
      const isResponse = message.method === undefined && message.id !== undefined;
      const request = isResponse ? waiting.get(message.id) : undefined;
      if (request === undefined) return deliver(message, extra);
      waiting.delete(message.id);
      const shaped = await guard.onResponse(request, message, { protocolVersion });
      deliver(shaped.message, extra);
    });

  async function send(message, options) {
    if (message.method === "notifications/cancelled") waiting.delete(message.params?.requestId);
    if (Array.isArray(message) || message.method === undefined || message.id === undefined) return transport.send(message, options);
    const verdict = await guard.onRequest(message, { protocolVersion });
    if (verdict.answer !== undefined) return void inOrder(() => deliver(verdict.answer));
    if (verdict.ticket !== undefined) waiting.set(message.id, verdict.ticket);
    try {
      return await transport.send(verdict.forward, options);
    } catch (error) {
      waiting.delete(message.id);
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
