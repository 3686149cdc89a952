# Tools by name, and the questions about them. Nothing is known here of what exists: every call is asked and answered outside.
import functools


class ToolError(Exception):
    """A call that was refused or failed."""

    def __init__(self, message, code="call.failed", rule=None, hint=None, tool=None, retry_after_ms=None, call=None):
        super().__init__(message)
        self.message = message
        self.code, self.rule, self.hint, self.tool, self.retry_after_ms = code, rule, hint, tool, retry_after_ms
        self.call = call


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


@functools.lru_cache(256)
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


def _skills_module():
    module = types.ModuleType("skills", "Saved programs: `from skills import some_skill`, `await some_skill(name=value)`.")

    def skill(name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Tool("skills", name)

    module.__getattr__ = skill
    module.__all__ = []
    return module


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
