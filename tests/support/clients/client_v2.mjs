// Drives the client of the TypeScript v2 packages. Reads a plan as JSON, and
// prints the outcome of each step as JSON.
import { drive } from "./plan.mjs";

await drive("@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio", "@modelcontextprotocol/client");
