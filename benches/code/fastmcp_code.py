"""FastMCP with its code mode in front of servers: `fastmcp_code.py FILE PORT`. The file is a list
of objects with `name` and `command`."""

import json
import sys

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

main: FastMCP = FastMCP("code", transforms=[CodeMode()])
with open(sys.argv[1], encoding="utf-8") as file:
    servers = json.load(file)
for server in servers:
    program, *arguments = server["command"]
    main.mount(create_proxy(StdioTransport(program, arguments)), namespace=server["name"])
main.run(
    transport="http",
    host="127.0.0.1",
    port=int(sys.argv[2]),
    show_banner=False,
    log_level="warning",
)
