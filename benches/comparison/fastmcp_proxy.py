"""FastMCP's proxy with its response limiter: `fastmcp_proxy.py [--http PORT] -- URL` or `-- COMMAND...`."""

import sys

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware

at = sys.argv.index("--")
command, options = sys.argv[at + 1 :], sys.argv[1:at]
backend = command[0] if command[0].startswith("http:") else StdioTransport(command[0], command[1:])
proxy: FastMCP = create_proxy(backend)
proxy.add_middleware(ResponseLimitingMiddleware(max_size=32_000))
if options[:1] == ["--http"]:
    proxy.run(transport="http", host="127.0.0.1", port=int(options[1]), show_banner=False, log_level="warning")
else:
    proxy.run(transport="stdio", show_banner=False, log_level="warning")
