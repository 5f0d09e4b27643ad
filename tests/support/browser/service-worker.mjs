// A guard in a service worker: answers a message with the result of a program.
import { ContextGuard, init } from "/package/init.js";

const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list", arguments: { _guard: { jq: "add" } } } };

self.onmessage = async ({ ports: [port] }) => {
  await init();
  const guard = new ContextGuard();
  const { ticket } = await guard.onRequest(call);
  const { message } = await guard.onResponse(ticket, { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "[1,2,3]" }] } });
  port.postMessage(message.result.content[0].text);
};
