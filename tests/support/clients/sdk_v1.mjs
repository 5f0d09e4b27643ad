// Drives the TypeScript SDK v1 client. A plan comes in as JSON, an outcome for each of its steps goes out as JSON.
import { drive } from "./plan.mjs";

await drive(
  "@modelcontextprotocol/sdk/client/index.js",
  "@modelcontextprotocol/sdk/client/stdio.js",
  "@modelcontextprotocol/sdk/client/streamableHttp.js",
);
