// An OAuth authorization server (oidc-provider) and an MCP server that it protects, on one port.
//
// Each login is that of a new user: user-1, user-2 and so on. Tokens for the MCP server are opaque,
// those for other resources are JWTs, and expire after TTL seconds. ISSUER replaces the issuer that
// the metadata of the server names. SSE makes the MCP server speak HTTP+SSE of 2024-11-05.

import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const modules = `${process.env.PEERS}/node_modules/`;
const load = (path) => import(pathToFileURL(modules + path).href);
const { default: express } = await load("express/index.js");
const { McpServer } = await load("@modelcontextprotocol/sdk/dist/esm/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/streamableHttp.js");
const { SSEServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/sse.js");
const { requireBearerAuth } = await load("@modelcontextprotocol/sdk/dist/esm/server/auth/middleware/bearerAuth.js");
const { InvalidTokenError } = await load("@modelcontextprotocol/sdk/dist/esm/server/auth/errors.js");
const { Provider } = await import(pathToFileURL(`${process.env.PEERS}/oauth/node_modules/oidc-provider/lib/index.js`).href);

const app = express();
const server = createServer(app);
await new Promise((listening) => server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const resource = `${base}/mcp`;
const ttl = Number(process.env.TTL ?? 3600);

const provider = new Provider(base, {
  clients: [],
  scopes: ["openid", "offline_access", "read", "write"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  ttl: { AccessToken: ttl, Interaction: 600, Session: 600, Grant: 6000, RefreshToken: 6000, DeviceCode: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  // The loopback client of the tests keeps no cookies between logins.
  cookies: { keys: ["a key of the tests"] },
  features: {
    devInteractions: { enabled: false },
    deviceFlow: { enabled: !process.env.NO_DEVICE },
    registration: { enabled: !process.env.NO_REGISTRATION },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, wanted) => ({
        scope: "read write",
        audience: wanted,
        accessTokenTTL: ttl,
        accessTokenFormat: wanted === resource ? "opaque" : "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.on("server_error", (_, error) => console.error(error));
provider.on("grant.error", (_, error) => console.error("grant.error", error.error_description ?? error.message));

// A person who agrees to everything.
let users = 0;
app.get("/interaction/:uid", async (request, response) => {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    users += 1;
    return provider.interactionFinished(request, response, { login: { accountId: `user-${users}` } });
  }
  const known = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = known ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
  for (const [one, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) grant.addResourceScope(one, scopes.join(" "));
  // Scopes that the protocol hides from the prompt, such as offline_access.
  grant.addOIDCScope(params.scope ?? "");
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
});

// The protected MCP server, and what it received.
const received = [];
const metadata = `${base}/.well-known/oauth-protected-resource/mcp`;
app.get("/.well-known/oauth-protected-resource/mcp", (_, response) =>
  response.json({ resource, authorization_servers: [process.env.ISSUER ?? base], scopes_supported: ["read"] }));
app.get("/received", (_, response) => response.json(received));
// Ends all access tokens before their time.
const revoked = new Set();
app.post("/expire", (_, response) => {
  received.forEach(({ authorization }) => revoked.add(authorization));
  response.json({});
});
const verifier = {
  async verifyAccessToken(token) {
    const found = await provider.AccessToken.find(token);
    if (!found || revoked.has(`Bearer ${token}`)) throw new InvalidTokenError("Unknown or expired token");
    return {
      token,
      clientId: found.clientId,
      scopes: (found.scope ?? "").split(" "),
      expiresAt: found.exp,
      resource: new URL([found.aud].flat()[0]),
      extra: { account: found.accountId },
    };
  },
};
const guard = (requiredScopes) =>
  requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl: metadata, expectedResource: new URL(resource) });
const [reader, writer] = [guard(["read"]), guard(["read", "write"])];
app.use("/mcp", express.json(), (request, response, next) => {
  const { authorization = "", cookie = "" } = request.headers;
  received.push({ authorization, cookie, key: request.headers["x-api-key"] ?? "", method: request.body?.method ?? request.method });
  return (request.body?.params?.name === "write_note" ? writer : reader)(request, response, next);
});
const protectedServer = () => {
  const mcp = new McpServer({ name: "protected", version: "1" });
  const text = (text) => ({ content: [{ type: "text", text }] });
  mcp.registerTool("whoami", {}, ({ authInfo }) => text(`${authInfo.extra.account} ${authInfo.scopes.join(",")}`));
  mcp.registerTool("write_note", {}, ({ authInfo }) => text(`written by ${authInfo.extra.account}`));
  return mcp;
};
if (process.env.SSE) {
  const sessions = new Map();
  app.get("/mcp", async (_, response) => {
    const transport = new SSEServerTransport("/mcp/messages", response);
    sessions.set(transport.sessionId, transport);
    await protectedServer().connect(transport);
  });
  app.post("/mcp/messages", (request, response) =>
    sessions.get(request.query.sessionId).handlePostMessage(request, response, request.body));
} else {
  app.post("/mcp", async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    await protectedServer().connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
}
app.all("/mcp", (_, response) => response.status(405).end());
app.use(provider.callback());
console.log(resource);
