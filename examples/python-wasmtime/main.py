"""Guards the answer of a tool, and reads its pages by cursor, until the whole list arrived."""

import json
import secrets
import sys
from types import SimpleNamespace

from guard import Guard, MemoryStore

COMPONENT = sys.argv[1] if len(sys.argv) > 1 else "../../target/context-guard.wasm"

policy = json.dumps({"tokenBudgetThreshold": 4000})
guard = Guard(COMPONENT, policy, secrets.token_bytes(32), MemoryStore())


def upstream(request):
    """Answers as the server behind the guard."""
    customers = [{"id": at, "name": f"Customer {at}", "city": "Lisbon"} for at in range(500)]
    content = [{"type": "text", "text": json.dumps(customers)}]
    return {"jsonrpc": "2.0", "id": json.loads(request)["id"], "result": {"content": content}}


# The caller. The names are those of the interface, so they are no Python identifiers.
CONTEXT = SimpleNamespace(
    **{
        "principal": "ada",
        "session": "",
        "request-id": "1",
        "upstream": "crm",
        "protocol-version": "2025-11-25",
        "client-name": None,
        "catalog-version": None,
        "store-unavailable": False,
        "only-count": False,
        "lists-tools": None,
        "full-list": False,
        "options": [],
    }
)


def call(name, arguments):
    """Calls a tool through the guard, and returns its result."""
    params = {"name": name, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    message, ticket = guard.on_request(CONTEXT, json.dumps(request).encode())
    if ticket is not None:
        answer = json.dumps(upstream(message)).encode()
        # With an empty ticket, the guard need not see the response.
        message = guard.on_response(CONTEXT, ticket, answer) if ticket else answer
    return json.loads(message)["result"]


read = []
result = call("list_customers", {})
while True:
    items = json.loads(result["content"][0]["text"])["items"]
    read.extend(items)
    print(f"customers {items[0]['id']} to {items[-1]['id']}")
    cursor = result["_meta"]["dev.context-guard/result"].get("nextCursor")
    if cursor is None:
        break
    result = call("context_guard_read", {"cursor": cursor})
print(f"{len({item['id'] for item in read})} of 500 customers read")
