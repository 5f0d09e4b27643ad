"""An MCP server on standard input and output. Its tools are the JSON list in the file that its first
argument names. Calls return their tool and arguments. With `--hang`, it never answers."""

import json
import sys
import time


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tools = json.load(file)
    names = {tool["name"] for tool in tools}
    hangs = "--hang" in sys.argv
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if hangs:
            time.sleep(3600)
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        method, params = request.get("method"), request.get("params") or {}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "catalogue", "version": "1.0.0"},
            }
        elif method == "tools/list":
            answer["result"] = {"tools": tools}
        elif method == "tools/call" and params.get("name") in names:
            text = json.dumps({"tool": params["name"], "arguments": params.get("arguments")})
            answer["result"] = {"content": [{"type": "text", "text": text}]}
        elif method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": f"no {method} {params.get('name')}"}
        print(json.dumps(answer), flush=True)


main()
