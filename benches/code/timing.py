"""Times of programs next to plain tool calls, their ends at a deadline, and the memory of many."""

import concurrent.futures
import json
import pathlib
import statistics
import time

import clients

RUN = "context_guard_run"
EMPTY = {"code": "return 0"}
RUNS = 1_000
CLIENTS = 40
# Processor time has a resolution of 10 ms, so that it is that of many calls.
PROCESSOR_CALLS = 50
# The deadline of programs that do not end, in milliseconds, and how often each runs.
DEADLINE = 500
ENDLESS_RUNS = 5
ENDLESS = {
    "loop": "for (;;);",
    "loop of promises": "for (;;) await null",
    "microtasks": "const next = () => Promise.resolve().then(next); await next()",
    "one replacement": "'x'.repeat(1e6).replace(/(x+x+)+y/, '')",
    "one regular expression": "/^(a|a)*$/.test('a'.repeat(40) + 'b')",
    "one sort": "[...Array(3e5).keys()].sort(() => { for (let i = 0; i < 1e4; i++); return 1 })",
    "one search of a text": "for (;;) 'a'.repeat(3e7).indexOf('a'.repeat(1e6) + 'b')",
    "one parse": "const text = '[' + '1,'.repeat(2e6) + '1]'; for (;;) JSON.parse(text)",
    "tool that never answers": "await tools.silent.wait()",
    "many pending calls": "await Promise.all(Array(50).fill().map(() => tools.silent.wait()))",
    "growing text": "let text = 'x'; for (;;) { text += text; if (text.length > 1e7) text = 'x' }",
}
# Runs before the measured ones, so that pools and caches have their size.
WARM_UP = 200


# A server with a tool that never answers.
SILENT = """
import json, sys
tool = {"name": "wait", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "silent", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "ping": {},
    }
    if message.get("method") in results and "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        print(json.dumps(answer), flush=True)
"""


def milliseconds(call):
    began = time.perf_counter()
    result = call()
    if result.get("isError"):
        raise RuntimeError(clients.text(result)[:300])
    return (time.perf_counter() - began) * 1_000


def spread(times):
    ordered = sorted(times)
    return f"{ordered[0]:.1f} | {statistics.median(ordered):.1f}"


def write_megabyte(folder):
    """Writes the spec of a server whose tool returns 1 MB of records, and returns its command."""
    rows = [
        {"id": number, "name": f"item {number}", "price": number * 7 % 1_000, "city": "Lisbon"}
        for number in range(15_500)
    ]
    payload = folder / "megabyte.txt"
    payload.write_text(json.dumps(rows), encoding="utf-8")
    tool = {"name": "list_items", "description": "All items.", "file": str(payload)}
    spec = folder / "megabyte.json"
    spec.write_text(json.dumps({"name": "megabyte", "tools": [tool]}), encoding="utf-8")
    command = ["python3", str(clients.HERE / "replay_server.py"), str(spec)]
    return {"name": "megabyte", "command": command}, payload.stat().st_size


def report(bench, folder: pathlib.Path):
    megabyte, size = write_megabyte(folder)
    silent = {"name": "silent", "command": ["python3", "-c", SILENT]}
    clock = [server for server in bench.servers if server["name"] == "clock"]
    bench.servers = [*clock, megabyte, silent]
    print("\n| | least ms | median ms | processor ms |\n|---|---|---|---|")
    cold, sizes = [], []
    for _ in range(5):
        gateway = bench.start_gateway({})
        client = gateway.client()
        client.call("clock__now", {})
        before = gateway.resident()
        cold.append(milliseconds(lambda client=client: client.call(RUN, EMPTY)))
        sizes.append(gateway.resident() - before)
        gateway.close()
    print(f"| first empty program of a gateway, 5 gateways | {spread(cold)} | |")
    first = statistics.median(sizes)
    gateway = bench.start_gateway({})
    try:
        measure(gateway, size, bench.fastmcp)
        memory(gateway)
        endless(gateway)
        at_once(gateway)
    finally:
        gateway.close()
    print(f"The first empty program adds {first:.1f} MB of resident memory at the median.")


def measure(gateway, size, fastmcp):
    client = gateway.client()
    cursor = clients.text(client.call("megabyte__list_items", {}))
    cursor = cursor.split('{"cursor":"')[1].split('"')[0]
    over = "filter((item) => item.price > 990)"
    rows = {"code": f"return open(cursors[0]).rows().{over}.count()", "cursors": [cursor]}
    parse = {"code": f"return open(cursors[0]).value().{over}.length", "cursors": [cursor]}
    called = {"code": f"return (await tools.megabyte.list_items()).{over}.length"}
    sides = {
        "plain call of a tool": ("clock__now", {}),
        "empty program": (RUN, EMPTY),
        "program with one call": (RUN, {"code": "return (await tools.clock.now()).timezone"}),
        f"plain call, {size / 1e6:.1f} MB": ("megabyte__list_items", {}),
        "program that calls it and filters": (RUN, called),
        "program that filters the stored answer, `rows()`": (RUN, rows),
        "program that filters the stored answer, `value()`": (RUN, parse),
    }
    sides = {label: (gateway, client, *side) for label, side in sides.items()}
    if fastmcp:
        sides["empty program of FastMCP"] = (fastmcp, fastmcp.client(), "execute", EMPTY)
    times = {label: [] for label in sides}
    # The sides take turns, so that the load of the machine is the same for all.
    for turn in range(60):
        for label, (_, user, *call) in sides.items():
            elapsed = milliseconds(lambda user=user, call=call: user.call(*call))
            if turn >= 10:
                times[label].append(elapsed)
    for label, found in times.items():
        process, user, *call = sides[label]
        before = process.processor()
        for _ in range(PROCESSOR_CALLS):
            user.call(*call)
        used = (process.processor() - before) / PROCESSOR_CALLS
        print(f"| {label} | {spread(found)} | {used:.1f} |")
    plain = statistics.median(times["plain call of a tool"])
    empty = statistics.median(times["empty program"]) / plain
    print(f"\nAn empty program takes {empty:.2f} times a plain call.")


def memory(gateway):
    code = "const list = Array.from({ length: 20_000 }, (_, n) => ({ n, text: `item ${n}` }));\n"
    code += "const now = await tools.clock.now();\nreturn [list.length, now.timezone];"
    local = [gateway.client() for _ in range(CLIENTS)]

    def run(number):
        # Each client belongs to one thread: number % CLIENTS never runs twice at once.
        client, failed = local[number], 0
        for _ in range(RUNS // CLIENTS):
            failed += bool(client.call(RUN, {"code": code}).get("isError"))
        return failed

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for number in range(WARM_UP):
            local[number % CLIENTS].call(RUN, {"code": code})
        sizes, failed, began = [gateway.resident()], 0, time.perf_counter()
        for _ in range(3):
            failed += sum(pool.map(run, range(CLIENTS)))
            sizes.append(gateway.resident())
        elapsed = time.perf_counter() - began
    shown = ", ".join(f"{size:.0f}" for size in sizes)
    print(
        f"\nResident memory of the gateway before, and after each of three times {RUNS:,} runs, "
        f"{CLIENTS} at a time: {shown} MB. {failed} runs failed; "
        f"{3 * RUNS / elapsed:.0f} runs per second."
    )


def endless(gateway):
    """Programs that do not end: how long after their deadline their answer arrives."""
    client, late, unended = gateway.client(), {}, []
    client.call(RUN, EMPTY)
    for label, code in ENDLESS.items():
        times = []
        for _ in range(ENDLESS_RUNS):
            began = time.perf_counter()
            result = client.call(RUN, {"code": code, "timeoutMs": DEADLINE})
            times.append((time.perf_counter() - began) * 1_000 - DEADLINE)
            if "deadline" not in clients.text(result):
                unended.append(f"{label}: {clients.text(result)[:200]}")
            if client.call(RUN, {"code": "return 1 + 1"}).get("isError"):
                unended.append(f"{label}: the next program failed")
        late[label] = max(times)
    print(f"\n| program | ms after its deadline, most of {ENDLESS_RUNS} |\n|---|---|")
    for label, most in late.items():
        print(f"| {label} | {most:.0f} |")
    print("".join(f"\n**{fault}**\n" for fault in unended))


def at_once(gateway):
    """Many programs at once, each of a session of its own."""
    every = [gateway.client() for _ in range(RUNS)]
    code = {"code": "return (await tools.clock.now()).timezone", "timeoutMs": 30_000}
    sizes, failed = [gateway.resident()], []
    with concurrent.futures.ThreadPoolExecutor(RUNS) as pool:
        for _ in range(3):
            results = list(pool.map(lambda client: client.call(RUN, code), every))
            failed += [clients.text(result) for result in results if result.get("isError")]
            sizes.append(gateway.resident())
    shown = ", ".join(f"{size:.0f}" for size in sizes)
    print(
        f"Resident memory before, and after each of three times {RUNS:,} programs at once: {shown} "
        f"MB. {len(failed)} failed. {failed[:1]}"
    )
