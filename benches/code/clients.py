"""Clients of MCP servers over stdio and Streamable HTTP, and a counter of tokens."""

import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).parent
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench-code", "version": "1.0.0"},
}


class StdioClient:
    """A client of a server process."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0
        self.request("initialize", HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.number and "method" not in message:
                return message.get("result") or {"isError": True, "content": [], **message}
        raise RuntimeError("the server ended")

    def call(self, name, arguments):
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def tools(self):
        return self.request("tools/list", {})["tools"]

    def close(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.process.kill()


class HttpClient:
    """A client of a gateway, with one session and one connection."""

    def __init__(self, port, path="/mcp"):
        self.port, self.path = port, path
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.session, self.number, self.used = None, 0, time.monotonic()
        self.request("initialize", HANDSHAKE)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message):
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": HANDSHAKE["protocolVersion"],
        }
        if self.session:
            headers["mcp-session-id"] = self.session
        # Servers close idle connections.
        if time.monotonic() - self.used > 3:
            self.connection.close()
        self.used = time.monotonic()
        self.connection.request("POST", self.path, json.dumps(message).encode(), headers)
        response = self.connection.getresponse()
        body = response.read().decode()
        self.used = time.monotonic()
        self.session = response.getheader("mcp-session-id") or self.session
        if response.getheader("content-type", "").startswith("text/event-stream"):
            # The response is the only message of its stream with a result or an error.
            data = [line[5:] for line in body.splitlines() if line.startswith("data:")]
            found = [json.loads(part) for part in data if part.strip()]
            return next(part for part in found if "result" in part or "error" in part)
        if response.status >= 400:
            raise RuntimeError(f"{response.status}: {body[:500]}")
        return json.loads(body) if body else None

    def request(self, method, params):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        answer = self.post(message)
        return answer.get("result") or {"isError": True, "content": [], **answer}

    call = StdioClient.call
    tools = StdioClient.tools


def text(result):
    """Returns all texts of a result."""
    blocks = result.get("content", [])
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Gateway:
    """A gateway process over HTTP. `command` is completed by its caller."""

    def __init__(self, command, port, log, path="/mcp"):
        self.port, self.path, self.log = port, path, log
        environment = {**os.environ, "CONTEXT_GUARD_NO_HISTORY": "true"}
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    message = pathlib.Path(log).read_text(encoding="utf-8")[-2000:]
                    raise RuntimeError(f"the gateway did not start: {message}") from None
                time.sleep(0.1)

    def client(self):
        return HttpClient(self.port, self.path)

    def resident(self):
        """Returns the resident memory in MB."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def processor(self):
        """Returns the milliseconds of processor time so far."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * 1_000 / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=30)
        self.process.kill()


class Tokenizer:
    """Counts o200k tokens with the npm package gpt-tokenizer."""

    def __init__(self, modules):
        self.process = subprocess.Popen(
            ["node", HERE / "tokens.mjs", modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def count(self, value):
        written = value if isinstance(value, str) else compact(value)
        self.process.stdin.write(json.dumps(written).encode() + b"\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
