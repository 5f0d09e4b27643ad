// A client transport of either SDK, with the guard in it: what it sends and gives goes through the guard, everything else is the transport's own.

/** Wraps a transport. Messages keep their order; those that are no requests and no answers pass as they are. */
export function guardTransport(transport, guard) {
  const waiting = new Map();
  const own = { onmessage: undefined };
  let protocolVersion = "";
  let last = Promise.resolve();
  // One after the other, in the order in which they came.
  const inOrder = (work) => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  const give = (message, extra) => own.onmessage?.(message, extra);

  transport.onmessage = (message, extra) =>
    void inOrder(async () => {
      const isAnswer = message.method === undefined && message.id !== undefined;
      const request = isAnswer ? waiting.get(message.id) : undefined;
      if (request === undefined) return give(message, extra);
      waiting.delete(message.id);
      const shaped = await guard.onResponse(request, message, { protocolVersion });
      give(shaped.message, extra);
    });

  async function send(message, options) {
    if (message.method === "notifications/cancelled") waiting.delete(message.params?.requestId);
    if (Array.isArray(message) || message.method === undefined || message.id === undefined) return transport.send(message, options);
    const asked = await guard.onRequest(message, { protocolVersion });
    if (asked.answer !== undefined) return void inOrder(() => give(asked.answer));
    if (asked.ticket !== undefined) waiting.set(message.id, asked.ticket);
    try {
      return await transport.send(asked.forward, options);
    } catch (error) {
      waiting.delete(message.id);
      throw error;
    }
  }

  return new Proxy(transport, {
    get(target, name) {
      if (name === "onmessage") return own.onmessage;
      if (name === "send") return send;
      // Private members need the transport itself.
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
