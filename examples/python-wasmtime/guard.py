"""The guard component in Python: load it, and pass messages through it."""

import time
from types import SimpleNamespace

from wasmtime import Engine, Store
from wasmtime.component import Component, Linker, Variant


class GuardError(Exception):
    """The guard failed on a message, or refused a policy."""


class MemoryStore:
    """Holds the rest of an answer until its cursor expires."""

    def __init__(self):
        self.entries = {}

    def get(self, _caller, keys):
        now = time.time() * 1000
        live = {key: value for key, (value, expires) in self.entries.items() if expires > now}
        return [live.get(key) for key in keys]

    def put(self, _caller, entries, ttl_ms):
        expires = time.time() * 1000 + ttl_ms
        self.entries.update((entry.key, (entry.value, expires)) for entry in entries)

    def extend(self, _caller, keys, ttl_ms):
        expires = time.time() * 1000 + ttl_ms
        for key in keys:
            if key in self.entries:
                value, old = self.entries[key]
                self.entries[key] = (value, max(old, expires))

    def delete(self, _caller, keys):
        for key in keys:
            self.entries.pop(key, None)


class Guard:
    """An instance of the component under a policy (JSON) and a key that signs cursors."""

    def __init__(self, path, policy, key, store):
        engine = Engine()
        component = Component.from_file(engine, path)
        self.store = Store(engine)
        linker = Linker(engine)
        with linker.root() as root:
            with root.add_instance("context-guard:guard/cursor-store@0.1.0") as cursors:
                for name in ("get", "put", "extend", "delete"):
                    cursors.add_func(name, getattr(store, name))
            with root.add_instance("wasi:clocks/wall-clock@0.2.0") as clock:
                clock.add_func("now", self._now)
                clock.add_func("resolution", self._now)
        self.instance = linker.instantiate(self.store, component)
        compiled = self._call("compile-policy", policy)
        if isinstance(compiled, list):
            raise GuardError("; ".join(f"{issue.path}: {issue.reason}" for issue in compiled))
        keys = [SimpleNamespace(id="1", secret=key)]
        self.settings = SimpleNamespace(policy=compiled.resolved, keys=keys)

    def on_request(self, context, message):
        """Returns the answer of the guard and None, or a request to forward and its ticket."""
        result = self._call("on-request", self.settings, context, message)
        if result.tag == "err":
            raise GuardError(result.payload)
        verdict = result.payload
        if verdict.tag == "answer":
            return verdict.payload.message, None
        forward = verdict.payload
        return message if forward.message is None else forward.message, forward.ticket

    def on_response(self, context, ticket, message):
        """Returns the response for the client."""
        result = self._call("on-response", self.settings, context, ticket, message)
        if isinstance(result, Variant):
            raise GuardError(result)
        return message if result.message is None else result.message

    def _call(self, name, *arguments):
        interface = self.instance.get_export_index(self.store, "context-guard:guard/guard@0.1.0")
        index = self.instance.get_export_index(self.store, name, interface)
        function = self.instance.get_func(self.store, index)
        result = function(self.store, *arguments)
        function.post_return(self.store)
        return result

    @staticmethod
    def _now(_caller):
        now = time.time_ns()
        return SimpleNamespace(seconds=now // 10**9, nanoseconds=now % 10**9)
