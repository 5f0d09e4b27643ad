// Drives the OAuth client of the TypeScript SDK v1: connects to the MCP server at a URL, logs in
// with a browser that agrees to everything, and prints the tools and the tokens as JSON.

import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { pathToFileURL, fileURLToPath } from "node:url";

const load = (path) => import(pathToFileURL(`${process.env.PEERS}/node_modules/@modelcontextprotocol/sdk/dist/esm/${path}`).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { UnauthorizedError } = await load("client/auth.js");

const url = new URL(process.argv[2]);
let deliver;
const code = new Promise((resolve) => (deliver = resolve));
const listener = createServer((request, response) => {
  deliver(new URL(request.url, "http://127.0.0.1").searchParams.get("code"));
  response.end("done");
});
await new Promise((listening) => listener.listen(0, "127.0.0.1", listening));
const redirect = `http://127.0.0.1:${listener.address().port}/callback`;
const saved = {};
const provider = {
  redirectUrl: redirect,
  clientMetadata: {
    client_name: "test", redirect_uris: [redirect], application_type: "native", token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
  },
  clientInformation: () => saved.client,
  saveClientInformation: (client) => void (saved.client = client),
  tokens: () => saved.tokens,
  saveTokens: (tokens) => void (saved.tokens = tokens),
  codeVerifier: () => saved.verifier,
  saveCodeVerifier: (verifier) => void (saved.verifier = verifier),
  redirectToAuthorization: (target) => {
    execFile(process.execPath, [fileURLToPath(new URL("browser.mjs", import.meta.url)), target.href], () => {});
  },
};
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
  const client = new Client({ name: "oauth", version: "1" });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(await code);
    return connect();
  }
  return client;
};
const client = await connect();
const { tools } = await client.listTools();
console.log(JSON.stringify({ tools: tools.map(({ name }) => name), tokens: saved.tokens }));
await client.close();
listener.close();
