// Drives the client of the TypeScript v2 packages. A plan comes in as JSON, an outcome for each of its steps goes out as JSON.
import { drive } from "./plan.mjs";

await drive("@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio", "@modelcontextprotocol/client");
