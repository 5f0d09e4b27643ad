"""An MCP server over standard input and output that reports what it may do.

Each tool returns "ok", or the name of the error number.
"""

import ctypes
import errno
import json
import os
import resource
import socket
import stat
import sys

C = ctypes.CDLL(None, use_errno=True)


def read(path):
    with open(path, "rb") as file:
        file.read()


def write(path):
    with open(path, "wb") as file:
        file.write(b"written")


def truncate(path):
    os.truncate(path, 0)


def make_device(path):
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))


def execute(command):
    status = os.spawnv(os.P_WAIT, command[0], command)
    return "failed" if status else "ok"


def connect(port):
    socket.create_connection(("127.0.0.1", port), 5).close()


def open_socket(family, kind, protocol):
    socket.socket(family, kind, protocol).close()


def fast_open(port):
    """Connects by TCP Fast Open, without the call `connect`."""
    with socket.socket() as client:
        client.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))


def signal(pid):
    os.kill(pid, 0)


def pair(kind):
    for end in socket.socketpair(socket.AF_UNIX, kind):
        end.close()


def set_limit(pid):
    """Sets a limit of a process to its value."""
    limits = resource.prlimit(pid, resource.RLIMIT_CORE)
    resource.prlimit(pid, resource.RLIMIT_CORE, limits)


def call(number, arguments):
    """Makes a system call."""
    ctypes.set_errno(0)
    if C.syscall(number, *map(ctypes.c_long, arguments)) == -1:
        raise OSError(ctypes.get_errno(), "system call")


def file_limit():
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


TOOLS = [
    read, write, truncate, make_device, execute, connect, open_socket, fast_open, signal, pair,
    set_limit, call, file_limit,
]  # fmt: skip
TOOLS = {tool.__name__: tool for tool in TOOLS}


def run(name, arguments):
    try:
        return TOOLS[name](**arguments) or "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sandboxed", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    text = run(params["name"], params.get("arguments", {}))
    return {"content": [{"type": "text", "text": text}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(reply), flush=True)
