"""Measures programs over tools: tokens, calls and correctness of 40 tasks, times and memory.

    python3 benches/code/main.py --program FILE --modules FOLDER --payloads FOLDER --fastmcp FILE

Prints the tables of benches/results/code.md.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import timing
from clients import HERE, Gateway, StdioClient, Tokenizer, compact, free_port, text
from servers import SERVERS, write_specs
from tasks import TASKS

TRACES = ["direct", "pages", "jq", "code", "look", "fastmcp"]
# Characters of a result that the trace `look` shows.
LOOK = 400
RUN = "context_guard_run"


def look(server, tool):
    return f"return JSON.stringify(await tools.{server}.{tool}()).slice(0, {LOOK});"


class Trace:
    """The tokens of one trace: those of the arguments that the model writes, and of the results."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.written = self.read = self.calls = 0
        self.right, self.fault = False, ""

    @property
    def tokens(self):
        return self.written + self.read

    def call(self, client, name, arguments):
        result = client.call(name, arguments)
        self.written += self.tokenizer.count({"name": name, "arguments": arguments})
        self.read += self.tokenizer.count(text(result))
        self.calls += 1
        return result


def value(result):
    """Returns what a program sees: structured content, else the text, parsed if it is JSON."""
    return result.get("structuredContent") or parsed(text(result))


def parsed(written):
    """Parses a text that begins with JSON, and is followed by nothing or a notice."""
    if written.lstrip()[:1] in ("{", "["):
        try:
            found, end = json.JSONDecoder().raw_decode(written.lstrip())
        except json.JSONDecodeError:
            return written
        rest = written.lstrip()[end:].strip()
        if not rest or rest.startswith("[context-guard]"):
            return found
    return written


def without_notice(written):
    return written.split("\n[context-guard]")[0].rstrip("\n")


def output(result):
    """Returns the value of a query's answer."""
    found = parsed(text(result))
    if isinstance(found, str):
        found = without_notice(found)
        return int(found) if found.strip().lstrip("-").isdigit() else found
    return found


def cursor_of(result):
    facts = (result.get("_meta") or {}).get("dev.context-guard/result") or {}
    return facts.get("nextCursor") or facts.get("cursor")


def facts_of(result):
    return (result.get("_meta") or {}).get("dev.context-guard/result") or {}


def checked(result):
    if result.get("isError"):
        raise RuntimeError(text(result)[:500])
    return result


def same(left, right):
    return json.loads(json.dumps(left)) == json.loads(json.dumps(right))


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.servers = write_specs(options.payloads, folder)
        self.available = {server["name"] for server in self.servers}
        self.tokenizer = Tokenizer(options.modules)
        self.direct = {s["name"]: StdioClient(s["command"]) for s in self.servers}
        self.gateway = self.start_gateway({})
        self.client = self.gateway.client()
        self.fastmcp = self.start_fastmcp() if options.fastmcp else None
        self.fast_client = self.fastmcp.client() if self.fastmcp else None

    def start_gateway(self, code):
        port = free_port()
        config = self.folder / f"gateway-{port}.json"
        settings = {
            "listen": f"127.0.0.1:{port}",
            "upstreams": [{**server, "isolation": "shared"} for server in self.servers],
            "code": {"enabled": True, "tools": ["notes::put_record"], **code},
            "access": {"rateLimit": {"perMinute": 0}},
            "limits": {
                "sessions": 4_000, "sessionsPerPrincipal": 4_000, "connectionsPerAddress": 4_000
            },
        }
        config.write_text(json.dumps(settings), encoding="utf-8")
        command = [self.options.program, "serve", "--config", str(config)]
        return Gateway(command, port, self.folder / "gateway.log")

    def start_fastmcp(self):
        port = free_port()
        config = self.folder / "fastmcp.json"
        config.write_text(json.dumps(self.servers), encoding="utf-8")
        command = [self.options.fastmcp, str(HERE / "fastmcp_code.py"), str(config), str(port)]
        return Gateway(command, port, self.folder / "fastmcp.log")

    def close(self):
        for client in self.direct.values():
            client.close()
        self.gateway.close()
        if self.fastmcp:
            self.fastmcp.close()
        self.tokenizer.close()

    def tool_tokens(self, name):
        tool = next(tool for tool in self.client.tools() if tool["name"] == name)
        return self.tokenizer.count(listed(tool))

    def run(self, task):
        """Returns the traces of a task."""
        raw = [self.direct[server].call(tool, arguments) for server, tool, arguments in task.calls]
        known = task.known([value(result) for result in raw])
        traces = {}
        for name in TRACES if self.fastmcp else TRACES[:-1]:
            trace = traces[name] = Trace(self.tokenizer)
            before = len(self.written()) if task.writes else 0
            try:
                found = getattr(self, f"trace_{name}")(task, trace, known)
                if task.writes:
                    found = sorted(self.written()[before:], key=compact)
                    trace.right = same(found, sorted(known, key=compact))
                else:
                    trace.right = same(found, known)
                if not trace.right:
                    trace.fault = f"{compact(found)[:300]} instead of {compact(known)[:300]}"
            except Exception as error:  # A failed trace is a wrong answer, and is reported.
                trace.fault = f"{type(error).__name__}: {error}"[:600]
        return traces

    def written(self):
        """Returns the records that the tasks have stored."""
        file = self.folder / "written.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def store(self, task, trace, client, name, records):
        """The model writes each record itself."""
        for record in records if task.writes else []:
            trace.call(client, name, {"record": record})

    def trace_direct(self, task, trace, known):
        values = []
        for server, tool, arguments in task.calls:
            values.append(value(trace.call(self.direct[server], tool, arguments)))
        found = task.known(values)
        self.store(task, trace, self.direct["notes"], "put_record", found)
        return found

    def trace_pages(self, task, trace, known):
        values = []
        for (server, tool, arguments), fields in zip(task.calls, task.fields, strict=True):
            first = trace.call(self.client, f"{server}__{tool}", arguments)
            values.append(self.read_pages(trace, first, fields))
        found = task.known(values)
        self.store(task, trace, self.client, "notes__put_record", found)
        return found

    def read_pages(self, trace, first, fields):
        cursor, facts = cursor_of(first), facts_of(first)
        if not cursor:
            return value(first)
        if fields is None and facts.get("kind") != "page":
            return self.read_text(trace, first, cursor, facts)
        document, parts, arguments = None, [], {"cursor": cursor, "fields": fields, "pages": 8}
        if fields is None:
            # The first answer has the first records, and its cursor leads to the next ones.
            document, parts = unpacked(None, value(first))
            arguments = {"cursor": cursor, "pages": 8}
        while True:
            read = checked(trace.call(self.client, "context_guard_read", arguments))
            found = parsed(text(read))
            if isinstance(found, str):
                raise RuntimeError(f"no JSON: {found[:200]}")
            document, part = unpacked(document, found)
            parts.extend(part)
            following = facts_of(read).get("nextCursor")
            if not following:
                return packed(document, parts)
            arguments = {"cursor": following, "pages": 8}

    def read_text(self, trace, first, cursor, facts):
        """Reads a text, or a document that the first answer condenses, to its end."""
        written = ""
        if facts.get("kind") == "chunk":
            lines = text(first).split("\n")[: facts["metadata"]["endLine"]]
            written = "\n".join(lines) + "\n"
        while cursor:
            arguments = {"cursor": cursor, "pages": 8}
            read = checked(trace.call(self.client, "context_guard_read", arguments))
            part = text(read).split("\n[context-guard]")[0]
            if written and facts.get("kind") == "chunk" and not written.endswith("\n"):
                written += "\n"
            written += part
            cursor = facts_of(read).get("nextCursor")
        return parsed(written)

    def trace_jq(self, task, trace, known):
        """The first answer of a tool shows the shape. Later calls carry their query in `_guard`."""
        outputs, seen = [], set()
        for (server, tool, arguments), read in zip(task.calls, task.reads, strict=True):
            name = f"{server}__{tool}"
            read = read(outputs) if callable(read) else read
            if read and tool in seen:
                result = trace.call(self.client, name, {**arguments, "_guard": read})
                outputs.append(self.all_of(trace, checked(result)))
                continue
            seen.add(tool)
            first = trace.call(self.client, name, arguments)
            cursor = cursor_of(first)
            if read is None:
                outputs.append(value(first))
            elif cursor:
                result = trace.call(self.client, "context_guard_read", {"cursor": cursor, **read})
                outputs.append(self.all_of(trace, checked(result)))
            else:
                # The answer is complete: the model finds by itself what the query would find.
                result = self.client.call(name, {**arguments, "_guard": read})
                outputs.append(output(checked(result)))
        found = task.join(outputs) if task.join else outputs[0]
        self.store(task, trace, self.client, "notes__put_record", found)
        return found

    def all_of(self, trace, result):
        """Returns the value of a query's answer, with the pages after the first."""
        found, following = output(result), facts_of(result).get("nextCursor")
        if following and not isinstance(found, list | dict):
            raise RuntimeError(f"a part of a text: {found[:200]}")
        while following:
            more = trace.call(self.client, "context_guard_read", {"cursor": following, "pages": 8})
            document, rows = unpacked(None, found)
            found = packed(document, rows + unpacked(document, output(more))[1])
            following = facts_of(more).get("nextCursor")
        if isinstance(found, dict) and set(found) <= {"items", "nextCursor", "hasMore", "meta"}:
            return found.get("items", found)
        return found

    def trace_code(self, task, trace, known):
        result = trace.call(self.client, RUN, {"code": task.code})
        found = parsed(text(checked(result)))
        return output(result) if isinstance(found, str) else found

    def trace_look(self, task, trace, known):
        """The model does not know the shape of the results: a first program shows their starts."""
        for server, tool in dict.fromkeys((server, tool) for server, tool, _ in task.calls):
            if server.startswith("region") and server != "region0":
                continue
            trace.call(self.client, RUN, {"code": look(server, tool)})
        return self.trace_code(task, trace, known)

    def trace_fastmcp(self, task, trace, known):
        code = fastmcp_program(task, self.direct)
        result = trace.call(self.fast_client, "execute", {"code": code})
        written = text(checked(result))
        if not written:  # An empty list is an answer without content.
            return []
        found = parsed(written)
        # One text is returned without quotes.
        return int(found) if isinstance(found, str) and found.lstrip("-").isdigit() else found


def unpacked(document, found):
    """Returns the document around the longest list of an answer, and the list."""
    if isinstance(found, list):
        return [], found
    lists = [key for key, member in found.items() if isinstance(member, list)]
    key = "items" if "items" in lists else max(lists, key=lambda key: len(found[key]), default=None)
    if key is None:
        raise LookupError(f"no list in {list(found)[:10]}")
    # The guard's own envelope around a list at the top of the document.
    wrapped = key == "items" and set(found) <= {"items", "nextCursor", "hasMore", "meta"}
    if document is None:
        document = [] if wrapped else {**found, "": key}
    return document, found[key]


def packed(document, parts):
    if isinstance(document, list):
        return parts
    return {**document, document[""]: parts}


def fastmcp_program(task, direct):
    """Returns the program for FastMCP, whose results are texts unless they are structured."""
    lines, names = ["import json"], []
    loops = len(task.calls) > 2
    if loops:
        calls = compact([[f"{server}_{tool}", arguments] for server, tool, arguments in task.calls])
        servers = {server for server, _, _ in task.calls}
        tools = {tool for _, tool, _ in task.calls}
        if len(tools) == 1 and len(servers) == 1:
            server, tool, _ = task.calls[0]
            last = len(task.calls) + 1
            call = f"json.loads(await call_tool('{server}_{tool}', {{'page': n}}))"
            lines.append(f"every = [{call} for n in range(1, {last})]")
        elif len(servers) == len(task.calls):
            call = f"json.loads(await call_tool(f'region{{n}}_{task.calls[0][1]}', {{}}))"
            lines.append(f"every = [{call} for n in range({len(task.calls)})]")
        else:
            lines.append(f"every = [json.loads(await call_tool(t, p)) for t, p in {calls}]")
            lines.append("a = every[0]")
    else:
        for name, (server, tool, arguments) in zip("ab", task.calls, strict=False):
            result = direct[server].call(tool, arguments)
            call = f"await call_tool('{server}_{tool}', {compact(arguments)})"
            is_text = "structuredContent" in result or isinstance(value(result), str)
            lines.append(f"{name} = {call}" if is_text else f"{name} = json.loads({call})")
            names.append(name)
        if "every" in task.setup + task.python:
            lines.append(f"every = [{', '.join(names)}]")
    if task.setup:
        lines.append(task.setup)
    if task.writes:
        lines.append(f"found = {task.python}")
        lines.append("for record in found:")
        lines.append("    await call_tool('notes_put_record', {'record': record})")
        lines.append("return len(found)")
    else:
        lines.append(f"return {task.python}")
    return "\n".join(lines)


def print_tasks(results):
    traces = list(next(iter(results.values()))[1])
    print("| task | kind | " + " | ".join(traces) + " |")
    print("|---|---|" + "---|" * len(traces))
    for name, (task, found) in results.items():
        cells = []
        for trace in traces:
            one = found[trace]
            right = "" if one.right else " (wrong)"
            cells.append(f"{one.tokens:,} in {one.calls}{right}")
        print(f"| {name} | {task.kind} | " + " | ".join(cells) + " |")


def print_summary(results, tool_tokens):
    traces = list(next(iter(results.values()))[1])
    print("\n| | " + " | ".join(traces) + " |")
    print("|---|" + "---|" * len(traces))
    every = {trace: [found[trace] for _, found in results.values()] for trace in traces}

    def line(label, cell):
        print(f"| {label} | " + " | ".join(cell(trace) for trace in traces) + " |")

    line("right", lambda t: f"{sum(one.right for one in every[t])} of {len(every[t])}")
    line("median tokens", lambda t: f"{statistics.median(one.tokens for one in every[t]):,.0f}")
    line("mean tokens", lambda t: f"{statistics.mean(one.tokens for one in every[t]):,.0f}")
    line(
        "median tokens written",
        lambda t: f"{statistics.median(one.written for one in every[t]):,.0f}",
    )
    line("median tokens read", lambda t: f"{statistics.median(one.read for one in every[t]):,.0f}")
    line("all calls", lambda t: f"{sum(one.calls for one in every[t])}")

    def saving(trace, base):
        pairs = zip(every[trace], every[base], strict=True)
        shares = [1 - one.tokens / other.tokens for one, other in pairs]
        return f"{100 * statistics.median(shares):.1f} %"

    for base in ["direct", "pages", "jq"]:
        line(f"median saving to {base}", lambda trace, base=base: saving(trace, base))
    print()
    for trace, more, label in [
        ("code", False, "a program"),
        ("code", True, "a program and the definition of the tool"),
        ("look", True, "a look, a program and the definition of the tool"),
    ]:
        more = tool_tokens if more else 0
        lost = [
            name
            for name, (_, found) in results.items()
            if found[trace].tokens + more > found["direct"].tokens
        ]
        print(f"- {label} needs more tokens than `direct` in: {', '.join(lost) or 'no task'}.")


def listed(tool):
    """Returns the part of a tool's definition that models see."""
    return {key: tool[key] for key in ("name", "description", "inputSchema") if key in tool}


def print_schemas(bench):
    tools = [tool for client in bench.direct.values() for tool in client.tools()]
    print(f"\n{len(tools)} tools of {len(bench.direct)} servers. Tokens of the listed tools:\n")
    print("| listed | tools | tokens |\n|---|---|---|")
    rows = [("servers without gateway", tools), ("gateway with programs", bench.client.tools())]
    for label, code in [("without programs", {"enabled": False}), ("with `only`", {"only": True})]:
        gateway = bench.start_gateway(code)
        rows.append((f"gateway {label}", gateway.client().tools()))
        gateway.close()
    if bench.fast_client:
        rows.append(("FastMCP in code mode", bench.fast_client.tools()))
    for label, tools in rows:
        tokens = sum(bench.tokenizer.count(listed(tool)) for tool in tools)
        print(f"| {label} | {len(tools)} | {tokens:,} |")
    for name in ["context_guard_read", "context_guard_run"]:
        print(f"| of these, `{name}` | 1 | {bench.tool_tokens(name)} |")


def print_break_even(bench):
    """Finds the size of an answer from which a program needs fewer tokens than the answer."""
    code = "return (await tools.football.list_matches()).filter((m) => m.home_score > 5).length;"
    trace = Trace(bench.tokenizer)
    trace.call(bench.client, RUN, {"code": code})
    program = trace.tokens
    trace.call(bench.client, RUN, {"code": look("football", "list_matches")})
    steps = {
        "program and its answer": program,
        "look, program and their answers": trace.tokens,
        "the same and the definition of the tool": trace.tokens + bench.tool_tokens(RUN),
    }
    matches = value(bench.direct["football"].call("list_matches", {}))
    call = bench.tokenizer.count({"name": "list_matches", "arguments": {}})
    print("\n| in place of one answer | tokens | break-even |\n|---|---|---|")
    for label, tokens in steps.items():
        rows = next(
            rows
            for rows in range(1, len(matches))
            if call + bench.tokenizer.count(compact(matches[:rows])) > tokens
        )
        size = len(compact(matches[:rows]).encode())
        print(f"| {label} | {tokens} | {rows} records, {size:,} bytes |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="context-guard")
    parser.add_argument("--modules", required=True, help="a folder node_modules with gpt-tokenizer")
    parser.add_argument("--payloads", help="a folder of payloads, by class; see servers.py")
    parser.add_argument("--fastmcp", help="a python with fastmcp[code-mode]")
    parser.add_argument("--only", default="", help="run the tasks whose name contains this alone")
    parser.add_argument("--skip-timing", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        try:
            missing = sorted(set(SERVERS) - bench.available)
            if missing:
                print(f"No payloads for {', '.join(missing)}: their tasks are left out.\n")
            tasks = [
                task
                for task in TASKS
                if options.only in task.name and bench.available >= {call[0] for call in task.calls}
            ]
            results = {task.name: (task, bench.run(task)) for task in tasks}
            if results:
                print_tasks(results)
                print_summary(results, bench.tool_tokens(RUN))
            for name, (_, found) in results.items():
                for trace, one in found.items():
                    if one.fault:
                        print(f"{name}, {trace}: {one.fault}", file=sys.stderr)
            if not options.only:
                print_schemas(bench)
                if "football" in bench.available:
                    print_break_even(bench)
            if not options.skip_timing:
                timing.report(bench, pathlib.Path(folder))
        finally:
            bench.close()


if __name__ == "__main__":
    main()
