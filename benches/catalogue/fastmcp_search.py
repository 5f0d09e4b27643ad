"""Ranks tools with FastMCP's BM25 search. Reads tools and queries from standard input as JSON, and
writes the positions of the tools that it finds for each query."""

import asyncio
import json
import sys
from types import SimpleNamespace

from fastmcp.server.transforms.search.bm25 import BM25SearchTransform


async def main():
    given = json.load(sys.stdin)
    # The search reads these three attributes of a tool only. Names are unique, because it finds
    # tools by name.
    tools = [
        SimpleNamespace(
            name=tool["name"],
            description=tool["description"],
            parameters=tool["inputSchema"],
            position=position,
        )
        for position, tool in enumerate(given["tools"])
    ]
    search = BM25SearchTransform(max_results=given["limit"])
    # The first search compiles the index. The others use it directly, because each search would
    # compute a digest of all tools first, which takes most of the time.
    await search._search(tools, "first")
    found = [search._index.query(query, given["limit"]) for query in given["queries"]]
    json.dump(found, sys.stdout)


asyncio.run(main())
