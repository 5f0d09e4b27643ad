"""Drives the Python client of package mcp. Reads a plan and prints outcomes, both as JSON."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp import stdio_client
from mcp.client.sse import sse_client


def next_cursor(result):
    return (result.get("_meta") or {}).get("dev.context-guard/result", {}).get("nextCursor")


def dump(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def run(client, step):
    if step["op"] == "list":
        return [dump(await client.list_tools())]
    if step["op"] == "resources":
        return [dump(await client.list_resources())]
    if step["op"] == "prompts":
        return [dump(await client.list_prompts())]
    if step["op"] == "prompt":
        return [dump(await client.get_prompt(step["name"]))]
    if step["op"] == "read":
        return [dump(await client.read_resource(step["name"]))]
    results = [dump(await client.call_tool(step["name"], step.get("arguments") or {}))]
    while step.get("walk") and next_cursor(results[-1]):
        results.append(dump(await client.call_tool("context_guard_read", {"cursor": next_cursor(results[-1])})))
    return results


async def main():
    plan = json.loads(sys.argv[1])
    server, outcomes = plan["server"], []
    if server.get("transport") == "sse":
        connection = Client(sse_client(server["url"]), mode="legacy")
    elif "url" in server:
        connection = Client(server["url"], mode=server["mode"])
    else:
        connection = Client(stdio_client(StdioServerParameters(command=server["command"], args=server["args"])))
    async with connection as client:
        for step in plan["steps"]:
            try:
                outcomes.append({"ok": True, "results": await run(client, step)})
            except Exception as error:  # noqa: BLE001: every failure is an outcome
                outcomes.append({"ok": False, "error": repr(error)})
    sys.stdout.write(json.dumps(outcomes))


asyncio.run(main())
