"""An MCP server on standard input and output. Its tools are the JSON list in the file that its
first argument names, which it reads for each list. It adds a line to the file of that name with
`.log` for each list. Calls return their tool and arguments. A call with the argument `announce` notifies
of a changed list, and one with the argument `fail` is an error. With `--hang`, it never answers. With `--process`, it has a tool that is named
after its process."""

import json
import os
import sys
import time


def read_tools():
    with open(sys.argv[1], encoding="utf-8") as file:
        tools = json.load(file)
    if "--process" in sys.argv:
        schema = {"type": "object"}
        tools.append({"name": f"process_{os.getpid()}", "inputSchema": schema})
    return tools


def names():
    return {tool["name"] for tool in read_tools()}


def main():
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
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "catalogue", "version": "1.0.0"},
            }
        elif method == "tools/list":
            with open(sys.argv[1] + ".log", "a", encoding="utf-8") as log:
                log.write("list\n")
            answer["result"] = {"tools": read_tools()}
        elif method == "tools/call" and params.get("name") in names():
            if (params.get("arguments") or {}).get("announce"):
                changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                print(json.dumps(changed), flush=True)
            text = json.dumps({"tool": params["name"], "arguments": params.get("arguments")})
            answer["result"] = {"content": [{"type": "text", "text": text}]}
            if (params.get("arguments") or {}).get("fail"):
                answer["result"]["isError"] = True
        elif method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": f"no {method} {params.get('name')}"}
        print(json.dumps(answer), flush=True)


main()
