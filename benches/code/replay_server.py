"""An MCP server over stdio that answers with recorded payloads.

`replay_server.py FILE`: the file is a JSON object with `name` and `tools`. A tool has a `name` and
a `description`, and

- `file`: a payload, which is the text of its answer,
- `capture`: a recorded response of tools/call, whose result is returned as it is,
- `list`, with `file`: the member of the payload with its list; "" if the payload is a list,
- `pageSize`, with `list`: the tool takes `page`, from 1, and returns that part of the list,
- `from` and `to`, with `list`: the tool returns these records alone,
- `writes`: the tool appends its argument `record` to this file, as a line of JSON.
"""

import json
import sys


def load(tool):
    if "capture" in tool:
        with open(tool["capture"], encoding="utf-8") as file:
            return json.load(file)["result"]
    with open(tool["file"], encoding="utf-8") as file:
        return file.read()


def text_result(text):
    return {"content": [{"type": "text", "text": text}]}


class Server:
    def __init__(self, spec):
        self.name = spec["name"]
        self.tools = {tool["name"]: tool for tool in spec["tools"]}
        self.payloads = {}

    def definitions(self):
        return [definition(tool) for tool in self.tools.values()]

    def call(self, name, arguments):
        tool = self.tools[name]
        if tool.get("writes"):
            with open(tool["writes"], "a", encoding="utf-8") as file:
                file.write(json.dumps(arguments["record"]) + "\n")
            return text_result("stored")
        if name not in self.payloads:
            self.payloads[name] = load(tool)
        payload = self.payloads[name]
        if "capture" in tool:
            return payload
        if "list" not in tool:
            return text_result(payload)
        document = json.loads(payload)
        rows = document[tool["list"]] if tool["list"] else document
        if "from" in tool:
            return text_result(json.dumps(rows[tool["from"] : tool["to"]], ensure_ascii=False))
        size = tool["pageSize"]
        page = int(arguments.get("page", 1))
        answer = {
            "page": page,
            "pages": -(-len(rows) // size),
            "items": rows[(page - 1) * size : page * size],
        }
        return text_result(json.dumps(answer, ensure_ascii=False))


def definition(tool):
    schema = {"type": "object", "properties": {}}
    if "pageSize" in tool:
        schema["properties"]["page"] = {"type": "integer", "description": "From 1."}
    if tool.get("writes"):
        schema["properties"]["record"] = {"type": "object"}
        schema["required"] = ["record"]
    return {
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": schema,
        "annotations": {"readOnlyHint": "writes" not in tool},
    }


def answer(server, request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": server.name, "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": server.definitions()}
    if method == "tools/call":
        return server.call(params["name"], params.get("arguments") or {})
    if method == "ping":
        return {}
    return None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        server = Server(json.load(file))
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        message = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = answer(server, request)
        except (KeyError, TypeError, ValueError) as error:
            # The fault of an argument is that of the call: the server must not end.
            result = {**text_result(f"{type(error).__name__}: {error}"), "isError": True}
        if result is None:
            message["error"] = {"code": -32601, "message": f"no method {request['method']}"}
        else:
            message["result"] = result
        print(json.dumps(message, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
