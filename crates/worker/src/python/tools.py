# Tools by name, and the questions about them. Nothing is known here of what exists: every call is asked and answered outside.


class ToolError(Exception):
    """A call that was refused or failed."""

    def __init__(self, message, code="call.failed", rule=None, hint=None, tool=None):
        super().__init__(message)
        self.code, self.rule, self.hint, self.tool = code, rule, hint, tool


class _Bridge:
    """Calls to the worker and its answers. Answers are read by the event loop that made the last call."""

    _CHUNK = 256 * 1024

    def __init__(self, channel):
        self._channel = channel
        self._lock = threading.Lock()
        self._last = 0
        self._waiting = {}
        self._frames = []
        self._loop = None
        self._held = bytearray()

    def call(self, loop, head, body, label):
        future = loop.create_future()
        with self._lock:
            self._last += 1
            self._waiting[self._last] = (future, loop, label)
            if self._loop is not loop:
                self._move(loop)
            if not self._frames:
                loop.call_soon(self._send)
            self._frames.append(b'{"call":%d,%b,"body":%b}' % (self._last, head, body))
        return future

    def _move(self, loop):
        number = self._channel.fileno()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.remove_reader, number)
        loop.add_reader(number, self._receive)
        self._loop = loop

    def _send(self):
        with self._lock:
            frames, self._frames = self._frames, []
            self._channel.sendall(b"".join(part for frame in frames for part in (struct.pack(">I", len(frame)), frame)))

    def _receive(self):
        chunk = self._channel.recv(self._CHUNK)
        if not chunk:
            os._exit(_NO_JOB)
        held = self._held
        held += chunk
        start = 0
        while len(held) - start >= 4:
            (size,) = struct.unpack_from(">I", held, start)
            if len(held) - start - 4 < size:
                break
            self._settle(json.loads(held[start + 4 : start + 4 + size]))
            start += 4 + size
        del held[:start]

    def _settle(self, message):
        future, loop, label = self._waiting.pop(message["return"], (None, None, None))
        if future is None:
            return
        if loop is self._loop:
            _resolve(future, message, label)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, future, message, label)


def _resolve(future, message, label):
    if future.done():
        return
    error = message.get("error")
    if error is None:
        future.set_result(message["ok"])
    else:
        future.set_exception(ToolError(error["message"], error["code"], error["rule"], error["hint"], label))


_bridge = None


def _open_bridge(channel):
    global _bridge
    _bridge = _Bridge(channel)


async def _ask(head, arguments, label):
    return await _bridge.call(asyncio.get_running_loop(), head, _arguments(arguments, label), label)


def _arguments(arguments, label):
    try:
        text = json.dumps(arguments, allow_nan=False, ensure_ascii=False)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            return json.dumps(arguments, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        reason = str(error)
        found = _search(arguments, "arguments", set(), 0)
        if found is not None:
            where, what, hint = found
            reason = f"{where} is {what}, which JSON cannot hold; {hint}"
    raise TypeError(f"{label}: {reason}")


class _Tool:
    __slots__ = ("_server", "_name")

    def __init__(self, server, name):
        self._server, self._name = server, name

    def __call__(self, /, *values, **arguments):
        label = f"{self._server}.{self._name}"
        if values:
            raise TypeError(f"{label} takes keyword arguments only: `await {label}(name=value)`")
        head = b'"ask":"tool","server":%b,"tool":%b' % (_name_bytes(self._server), _name_bytes(self._name))
        return _ask(head, arguments, label)

    def __repr__(self):
        return f"<tool {self._server}.{self._name}>"


class _Server:
    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Tool(self._name, name)

    def __getitem__(self, name):
        if not isinstance(name, str):
            raise TypeError("a tool is named by a string")
        return _Tool(self._name, name)

    def __repr__(self):
        return f"<tools of {self._name}>"


def _name_bytes(name):
    return json.dumps(name).encode("ascii")


def search(query=None, **options):
    """Tools that serve an intent: `await search("open an issue")`, or a list of several intents."""
    return _question("search", "intents" if isinstance(query, (list, tuple)) else "query", query, options)


def describe(*tools, **options):
    """What tools are like: `await describe("github.list_issues", detail="full")`."""
    names = tools[0] if len(tools) == 1 and isinstance(tools[0], (list, tuple)) else tools
    return _question("describe", "tools", list(names) or None, options)


def list_tools(server=None, **options):
    """The servers, or the tools of one."""
    return _question("list", "server", server, options)


def _question(ask, key, subject, options):
    if subject is not None:
        options[key] = subject
    return _ask(b'"ask":"%b","server":"","tool":""' % ask.encode("ascii"), options, ask)


def _tools_module():
    module = types.ModuleType("tools", "The tools of this session: `from tools import some_server`.")

    def server(name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Server(name)

    module.__getattr__ = server
    module.__all__ = ["search", "describe", "list_tools", "ToolError"]
    for helper in (search, describe, list_tools, ToolError):
        setattr(module, helper.__name__, helper)
    return module
