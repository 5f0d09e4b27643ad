// Drives the TypeScript SDK v1 client. Reads a plan as JSON, and
// prints the outcome of each step as JSON.
import { drive } from "./plan.mjs";

await drive(
  "@modelcontextprotocol/sdk/client/index.js",
  "@modelcontextprotocol/sdk/client/stdio.js",
  "@modelcontextprotocol/sdk/client/streamableHttp.js",
  "@modelcontextprotocol/sdk/client/sse.js",
);
