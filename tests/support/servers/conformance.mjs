// The server that the official conformance suite tests, built on the npm server package. It supports
// both protocol modes, or only that of ERA: legacy (stateful) or modern (stateless). It listens on
// loopback and prints its URL, or uses standard input and output with --stdio.

import { createHmac, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The tests install packages in the folder PEERS.
const load = (name) => import(pathToFileURL(createRequire(process.env.PEERS + "/").resolve(name)));
const sdk = await load("@modelcontextprotocol/server");
const { z } = await load("zod");
const { McpServer, ResourceTemplate, completable, createMcpHandler, fromJsonSchema, inputRequired, isLegacyRequest } = sdk;
const { hostHeaderValidationResponse, originValidationResponse, localhostAllowedHostnames, localhostAllowedOrigins } = sdk;
const { WebStandardStreamableHTTPServerTransport } = sdk;

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const text = (text) => ({ content: [{ type: "text", text }] });
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const form = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });
const SECRET = randomUUID();
const sign = (state) => `${state}.${createHmac("sha256", SECRET).update(state).digest("hex")}`;
const signed = (state) => typeof state === "string" && state === sign(state.split(".")[0]);

// Creates a server for a protocol mode, and the function that notifies its clients of changes.
function build({ era }) {
  const server = new McpServer(
    { name: "conformance-fixture", version: "1.0.0" },
    {
      instructions: "A server for the conformance suite.",
      requestState: {
        verify: (state) => {
          if (!signed(state)) throw new Error("requestState failed its integrity check");
        },
      },
      capabilities: { logging: {}, completions: {}, tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
    },
  );
  const none = z.object({});
  const tool = (name, description, handler, inputSchema = none) => server.registerTool(name, { description, inputSchema }, handler);
  contents(tool);
  interactive(tool, server, era);
  rounds(tool, server);
  resources(server);
  prompts(server);
  if (era === "legacy") {
    server.server.setRequestHandler("resources/subscribe", () => ({}));
    server.server.setRequestHandler("resources/unsubscribe", () => ({}));
  }
  return server;
}

function contents(tool) {
  const resource = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
  const image = { type: "image", data: PNG, mimeType: "image/png" };
  tool("test_simple_text", "Returns simple text", () => text("This is a simple text response for testing."));
  tool("test_image_content", "Returns an image", () => ({ content: [image] }));
  tool("test_audio_content", "Returns audio", () => ({ content: [{ type: "audio", data: WAV, mimeType: "audio/wav" }] }));
  tool("test_embedded_resource", "Returns an embedded resource", () => ({
    content: [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  }));
  tool("test_multiple_content_types", "Returns several kinds of content", () => ({
    content: [
      { type: "text", text: "Multiple content types test:" },
      image,
      resource("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
    ],
  }));
  tool("test_error_handling", "Always fails", () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", (args) => text(JSON.stringify(args)), fromJsonSchema({
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  }));
  tool("test_x_mcp_header", "Mirrors an argument in a header", (args) => text(JSON.stringify(args)), fromJsonSchema({
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": "Region" }, query: { type: "string" } },
    required: ["region"],
  }));
}

// Tools that send requests and notifications to the client.
function interactive(tool, server, era) {
  tool("test_tool_with_logging", "Logs while it works", async (_, ctx) => {
    for (const [at, message] of ["Tool execution started", "Tool processing data", "Tool execution completed"].entries()) {
      if (at > 0) await wait(50);
      await ctx.mcpReq.log("info", message);
    }
    return text("Tool with logging executed successfully");
  });
  tool("test_logging_tool", "Logs at several levels", async (_, ctx) => {
    for (const level of ["debug", "info", "warning"]) await ctx.mcpReq.log(level, `A message at ${level}`);
    return text("Logged");
  });
  tool("test_tool_with_progress", "Reports progress", async (_, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100, message: `At ${progress}` } });
      }
      await wait(50);
    }
    return text(String(progressToken ?? "none"));
  });
  // A stateful client gets a request, a stateless one an input-required result.
  const stateless = era === "modern";
  // Use the stream of the call, because the common one may not be open yet.
  const onStream = (ctx) => ({ relatedRequestId: ctx.mcpReq.id });
  tool("test_sampling", "Asks the client's model", async ({ prompt }, ctx) => {
    const params = { messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens: 100 };
    const result = stateless ? ctx.mcpReq.inputResponses?.answer : await ctx.mcpReq.requestSampling(params, onStream(ctx));
    if (!result) return inputRequired({ inputRequests: { answer: inputRequired.createMessage(params) } });
    return text(`LLM response: ${result.content.text ?? JSON.stringify(result.content)}`);
  }, z.object({ prompt: z.string() }));
  const elicit = (name, description, properties, required) => tool(name, description, async (args, ctx) => {
    const params = { message: args.message ?? description, requestedSchema: form(properties, required) };
    const result = stateless ? ctx.mcpReq.inputResponses?.answer : await ctx.mcpReq.elicitInput(params, onStream(ctx));
    if (!result) return inputRequired({ inputRequests: { answer: inputRequired.elicit(params) } });
    return text(`Elicitation completed: action=${result.action}, content=${JSON.stringify(result.content ?? {})}`);
  }, z.object({ message: z.string().optional() }));
  elicit("test_elicitation", "Asks the user", {
    username: { type: "string", description: "User's response" },
    email: { type: "string", description: "User's email address" },
  });
  elicit("test_elicitation_sep1034_defaults", "Asks the user, with defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  }, []);
  const titled = ["First", "Second", "Third"].map((title, at) => ({ const: `value${at + 1}`, title: `${title} Option` }));
  elicit("test_elicitation_sep1330_enums", "Asks the user, with choices", {
    untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
    titledSingle: { type: "string", oneOf: titled },
    legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
    untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
    titledMulti: { type: "array", items: { anyOf: titled } },
  }, []);
  tool("test_reconnection", "Closes the stream before it answers", async (_, ctx) => {
    // The SDK offers this only for clients that poll. A server may close the stream of others too.
    const close = ctx.http?.closeSSE ?? (() => era === "legacy" && server.server.transport?.closeSSEStream?.(ctx.mcpReq.id));
    close();
    await wait(100);
    return text("Reconnection test completed");
  });
  tool("test_trigger_tool_change", "Says that the tools changed", async () => {
    changed ? changed.toolsChanged() : server.sendToolListChanged();
    return text("Tools changed");
  });
  tool("test_trigger_prompt_change", "Says that the prompts changed", async () => {
    changed ? changed.promptsChanged() : server.sendPromptListChanged();
    return text("Prompts changed");
  });
  tool("test_missing_capability", "Needs sampling", async (_, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.answer;
    if (answer) return text("Sampled");
    return inputRequired({ inputRequests: { answer: inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: "Hello" } }], maxTokens: 10 }) } });
  });
}

// Tools and prompts that need several rounds of input.
function rounds(tool, server) {
  const ask = (message, properties) => inputRequired.elicit({ message, requestedSchema: form(properties) });
  const sample = (question, maxTokens) => inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: question } }], maxTokens });
  const roots = () => inputRequired.listRoots();
  const accepted = (response) => (response?.action === "accept" ? response.content : undefined);
  const named = ask("What is your name?", { name: { type: "string" } });
  const t = (name, handler) => tool(`test_input_required_result_${name}`, `Several rounds: ${name}`, (_, ctx) =>
    handler(ctx.mcpReq.inputResponses ?? {}, ctx.mcpReq.requestState?.(), ctx));
  t("elicitation", ({ user_name }) => {
    const name = accepted(user_name)?.name;
    return typeof name === "string" ? text(`Hello, ${name}!`) : inputRequired({ inputRequests: { user_name: named } });
  });
  t("sampling", ({ capital_question: answer }) =>
    answer?.content ? text(`The model says: ${answer.content.text}`) : inputRequired({ inputRequests: { capital_question: sample("What is the capital of France?", 100) } }));
  t("list_roots", ({ client_roots: answer }) =>
    answer?.roots ? text(`Roots: ${answer.roots.map((root) => root.uri).join(", ")}`) : inputRequired({ inputRequests: { client_roots: roots() } }));
  t("request_state", ({ confirm }, state) =>
    confirm && signed(state) ? text("state-ok") : inputRequired({ inputRequests: { confirm: ask("Please confirm", { ok: { type: "boolean" } }) }, requestState: sign("confirm") }));
  t("multiple_inputs", ({ user_name, greeting, client_roots }, state) =>
    user_name && greeting && client_roots && signed(state)
      ? text(`${accepted(user_name)?.name}: ${greeting.content?.text}`)
      : inputRequired({ inputRequests: { user_name: named, greeting: sample("Generate a greeting", 50), client_roots: roots() }, requestState: sign("many") }));
  t("multi_round", ({ step1, step2 }, state) => {
    if (step2 && signed(state)) return text(`Done: ${accepted(step2)?.color}`);
    if (step1 && signed(state)) {
      return inputRequired({ inputRequests: { step2: ask("Step 2: What is your favorite color?", { color: { type: "string" } }) }, requestState: sign("two") });
    }
    return inputRequired({ inputRequests: { step1: ask("Step 1: What is your name?", { name: { type: "string" } }) }, requestState: sign("one") });
  });
  t("tampered_state", ({ confirm }, state) =>
    confirm && state !== undefined
      ? text("state-ok")
      : inputRequired({ inputRequests: { confirm: ask("Please confirm", { ok: { type: "boolean" } }) }, requestState: sign("tamper") }));
  t("capabilities", ({ a, b }, _state, ctx) => {
    if (a || b) return text("Answered");
    const has = ctx.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? server.server.getClientCapabilities() ?? {};
    const inputRequests = {};
    if (has.elicitation) inputRequests.a = named;
    if (has.sampling) inputRequests.b = sample("Hello", 10);
    return Object.keys(inputRequests).length ? inputRequired({ inputRequests }) : text("Nothing to ask");
  });
  tool("test_streaming_elicitation", "Needs input, over a stream", async (_, ctx) => {
    await ctx.mcpReq.log("info", "Working");
    const name = accepted(ctx.mcpReq.inputResponses?.user_name)?.name;
    return name ? text(`Hello, ${name}!`) : inputRequired({ inputRequests: { user_name: named } });
  });
  server.registerPrompt("test_input_required_result_prompt", { description: "A prompt of two rounds" }, (ctx) => {
    const context = accepted(ctx.mcpReq.inputResponses?.user_context)?.context;
    if (context === undefined) return inputRequired({ inputRequests: { user_context: ask("What context should the prompt use?", { context: { type: "string" } }) } });
    return { messages: [{ role: "user", content: { type: "text", text: `Context: ${context}` } }] };
  });
}

function resources(server) {
  const add = (name, uri, mimeType, content) =>
    server.registerResource(name, uri, { description: `The ${name}`, mimeType }, (uri) => ({ contents: [{ uri: uri.href, mimeType, ...content }] }));
  add("static-text", "test://static-text", "text/plain", { text: "This is the content of the static text resource." });
  add("static-binary", "test://static-binary", "image/png", { blob: PNG });
  add("example-resource", "test://example-resource", "text/plain", { text: "An example." });
  add("watched-resource", "test://watched-resource", "text/plain", { text: "Watched." });
  server.registerResource("template", new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "A template", mimeType: "application/json" }, (uri, { id }) => ({
      contents: [{ uri: uri.href, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }],
    }));
}

function prompts(server) {
  const said = (content) => ({ role: "user", content });
  const message = (text) => said({ type: "text", text });
  server.registerPrompt("test_simple_prompt", { description: "A simple prompt" }, () => ({ messages: [message("This is a simple prompt for testing.")] }));
  server.registerPrompt("test_prompt_with_arguments", {
    description: "A prompt with arguments",
    argsSchema: z.object({
      arg1: completable(z.string().describe("First"), (value) => ["paris", "park", "party"].filter((word) => word.startsWith(value))),
      arg2: z.string().describe("Second"),
    }),
  }, ({ arg1, arg2 }) => ({ messages: [message(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] }));
  server.registerPrompt("test_prompt_with_embedded_resource", { description: "Embeds a resource", argsSchema: z.object({ resourceUri: z.string() }) }, ({ resourceUri }) => ({
    messages: [
      said({ type: "resource", resource: { uri: resourceUri, mimeType: "text/plain", text: "Embedded resource content for testing." } }),
      message("Please process the embedded resource above."),
    ],
  }));
  server.registerPrompt("test_prompt_with_image", { description: "Has an image" }, () => ({
    messages: [said({ type: "image", data: PNG, mimeType: "image/png" }), message("Please analyze the image above.")],
  }));
}

// Stores the events of a session, so that a stream can be resumed.
class EventStore {
  events = [];
  async storeEvent(streamId, message) {
    this.events.push({ id: `${streamId}_${this.events.length}`, streamId, message });
    return this.events.at(-1).id;
  }
  async getStreamIdForEventId(id) {
    return this.events.find((event) => event.id === id)?.streamId;
  }
  async replayEventsAfter(lastId, { send }) {
    const at = this.events.findIndex((event) => event.id === lastId);
    const streamId = this.events[at]?.streamId;
    for (const event of this.events.slice(at + 1)) if (event.streamId === streamId && event.message) await send(event.id, event.message);
    return streamId;
  }
}

let changed;
if (process.argv.includes("--stdio")) {
  const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
  await serveStdio(build);
} else {
  const modern = createMcpHandler(build, { legacy: "reject" });
  changed = modern.notify;
  const sessions = new Map();
  const legacy = async (request) => {
    const id = request.headers.get("mcp-session-id");
    if (id) {
      const transport = sessions.get(id);
      return transport ? transport.handleRequest(request) : Response.json({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } }, { status: 404 });
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
      eventStore: new EventStore(),
      retryInterval: 200,
    });
    await build({ era: "legacy" }).connect(transport);
    return transport.handleRequest(request);
  };
  const handle = async (request) => {
    const rejected = hostHeaderValidationResponse(request, localhostAllowedHostnames()) ?? originValidationResponse(request, localhostAllowedOrigins());
    if (rejected) return rejected;
    const stateful = process.env.ERA ? process.env.ERA === "legacy" : await isLegacyRequest(request);
    return stateful ? legacy(request) : modern.fetch(request);
  };
  const http = createServer(async (req, res) => {
    const body = [];
    for await (const chunk of req) body.push(chunk);
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    const headers = new Headers();
    for (const [name, value] of Object.entries(req.headers)) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
    const request = new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method, headers, signal: gone.signal, ...(body.length ? { body: Buffer.concat(body) } : {}),
    });
    try {
      const response = await handle(request);
      res.writeHead(response.status, Object.fromEntries(response.headers));
      res.flushHeaders();
      for await (const chunk of response.body ?? []) res.write(chunk);
    } catch (error) {
      if (!gone.signal.aborted) console.error(error);
    }
    res.end();
  });
  http.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}
