# Runs one program and says how it ended.
import ast
import atexit
import builtins
import collections.abc
import dataclasses
import datetime
import decimal
import gc
import inspect
import json
import linecache
import os
import pathlib
import random
import sys
import threading
import traceback
import types

# Without `ssl`, which has no use in a place without sockets, asyncio costs half the memory.
sys.modules["ssl"] = None
import asyncio

del sys.modules["ssl"]

_VALUE = "__ringfence_value__"
_OURS = "<ringfence>"
_MAX_TEXT = 16 * 1024


def run(job):
    """The answer to a job: a dictionary that JSON can hold. Output goes to the standard streams."""
    source, name = job["source"], job["file_name"]
    _prepare(job)
    try:
        code = _compile(source, name)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return _finish(_syntax_error(error, name))
    try:
        value = _execute(code, name, job.get("input"))
        answer = _value(value)
    except SystemExit as error:
        answer = _exit(error)
    except BaseException as error:  # whatever a program can throw is its outcome
        answer = _failure(error, name)
    return _finish(answer)


def _prepare(job):
    workspace, deps = job.get("workspace", "/workspace"), job.get("deps", "/deps")
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(workspace)
    library = [place for place in sys.path if place]
    sys.path[:] = ([deps] if os.path.isdir(deps) else []) + library
    sys.argv[:] = [job["file_name"], *job["args"]]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable, *sys.argv]
    # By lines, so that what was said is out when the program is killed.
    sys.stdout = sys.__stdout__ = _stream(1)
    sys.stderr = sys.__stderr__ = _stream(2)
    # Without `site` these two are missing, and programs use them.
    builtins.exit = builtins.quit = sys.exit
    builtins.args = list(job["args"])
    builtins.files = Files(workspace)
    builtins.emit = _emitter(builtins.files)
    builtins.tools = sys.modules["tools"] = _tools_module()
    builtins.skills = sys.modules["skills"] = _skills_module()
    builtins.search, builtins.describe, builtins.list_tools, builtins.ToolError = search, describe, list_tools, ToolError
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    _begin_world(job)
    gc.enable()
    lines = job["source"].splitlines(keepends=True)
    linecache.cache[job["file_name"]] = (len(job["source"]), None, lines, job["file_name"])


def _stream(descriptor):
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _compile(source, name):
    tree = ast.parse(source, name)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last.value)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _execute(code, name, given=None):
    main = types.ModuleType("__main__")
    main.__file__ = os.path.join(os.getcwd(), name)
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    space = main.__dict__
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, space))
    else:
        exec(code, space)
    value = space.pop(_VALUE, None)
    main_function = space.get("main")
    if given is not None and callable(main_function):
        value = main_function(**given)
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    return value


def _finish(answer):
    """What an interpreter does at its end: waits for threads, runs exit functions, flushes."""
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
    except BaseException as error:
        _say(f"Exception ignored at exit: {error!r}\n")
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass  # the reader is gone or the program closed it; there is nobody left to tell
    return answer


def _say(text):
    try:
        stream = sys.stderr if sys.stderr is not None else sys.__stderr__
        stream.write(text)
    except Exception:
        pass  # the program closed or replaced its own stderr


def _error(error, **more):
    try:
        message = str(error)
    except Exception:
        message = "an error that cannot be shown"
    shape = {"type": type(error).__name__, "message": message[:_MAX_TEXT], "file": None, "line": None, "column": None, "text": None}
    shape.update(more)
    return shape


def _exit(error):
    code = error.code
    if code is None:
        code = 0
    elif not isinstance(code, int):
        _say(f"{code}\n")
        code = 1
    return {"kind": "exit", "exit_code": int(code) & 0xFF, "value_json": None}


def _syntax_error(error, name):
    if isinstance(error, SyntaxError):
        _say("".join(traceback.format_exception_only(type(error), error)))
        text = error.text.rstrip("\n") if isinstance(error.text, str) else None
        found = _error(error, message=str(error.msg), file=name, line=error.lineno or 1, column=error.offset or 1, text=text)
    else:
        reason = "the program is nested too deeply" if isinstance(error, (MemoryError, RecursionError)) else str(error)
        _say(f"SyntaxError: {reason}\n")
        found = _error(error, type="SyntaxError", message=reason, file=name, line=1, column=1)
    return {"kind": "syntax_error", "value_json": None, "error": found}


def _failure(error, name):
    place = {}
    try:
        shown = traceback.TracebackException(type(error), error, error.__traceback__)
        _keep_user_frames(shown, set())
        frames = [frame for frame in shown.stack if frame.filename == name]
        if frames:
            last = frames[-1]
            column = getattr(last, "colno", None)
            place = {"file": name, "line": last.lineno, "column": None if column is None else column + 1, "text": (last.line or "")[:_MAX_TEXT]}
        for part in shown.format():
            _say(part)
    except Exception:  # an exception whose own methods fail
        _say(f"{type(error).__name__}\n")
    if isinstance(error, ToolError):
        # Which call it was; what was said to it the host knows.
        number = getattr(error, "call", None)
        place["call"] = number if type(number) is int and 0 < number < 1 << 32 else None
    answer = {"kind": "failed", "value_json": None, "error": _error(error, **place)}
    if isinstance(error, ModuleNotFoundError) and error.name:
        answer["kind"] = "import_refused"
    return answer


def _keep_user_frames(shown, seen):
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    kept = [frame for frame in shown.stack if not _is_library(frame.filename)]
    shown.stack[:] = kept
    _keep_user_frames(shown.__cause__, seen)
    _keep_user_frames(shown.__context__, seen)
    for inner in getattr(shown, "exceptions", None) or ():
        _keep_user_frames(inner, seen)


def _is_library(filename):
    return filename == _OURS or filename.startswith("<frozen ") or filename.startswith(_LIBRARY)


_LIBRARY = os.path.dirname(os.__file__) + os.sep


def _value(value):
    if value is None:
        return {"kind": "completed", "value_json": None}
    try:
        text, notices = _represent(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return {"kind": "not_json", "value_json": None, "error": _error(error, message=f"the value is not JSON: {error}")}
    for notice in notices:
        _say(f"notice: {notice}\n")
    return {"kind": "completed", "value_json": text}


def _objection(value, error):
    try:
        found = _search(value, "value", set(), 0)
    except Exception:  # the value's own methods fail
        found = None
    if found is None:
        return f"the value is not JSON: {error}", "return dicts, lists, strings and numbers"
    where, what, hint = found
    where = "the value" if where == "value" else where
    return f"{where} is {what}, which JSON cannot hold", hint


def _search(item, where, above, depth):
    if item is None or isinstance(item, (str, bool, int)):
        return None
    if isinstance(item, float):
        if item == item and item not in (float("inf"), float("-inf")):
            return None
        return where, repr(float(item)), "replace it, for example by None"
    if isinstance(item, (list, tuple, dict)):
        if id(item) in above:
            return where, "a reference back to what holds it", "leave it out, or return only the fields you need"
        if depth > 200:
            return where, "nested very deeply", "return a flatter value"
        above.add(id(item))
        try:
            return _search_inside(item, where, above, depth + 1)
        finally:
            above.discard(id(item))
    return where, _kind(item), _advice(item)


def _search_inside(item, where, above, depth):
    if not isinstance(item, dict):
        parts = ((f"{where}[{index}]", part) for index, part in enumerate(item))
    else:
        for key in item:
            if not isinstance(key, (str, int, float, bool, type(None))):
                return where, f"a dict with {_kind(key)} as a key", "use strings as keys: `{str(k): v for k, v in d.items()}`"
        parts = ((f"{where}[{key!r}]", part) for key, part in item.items())
    for place, part in parts:
        found = _search(part, place, above, depth)
        if found is not None:
            return found
    return None


def _kind(item):
    name = type(item).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _advice(item):
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return "convert it: `dataclasses.asdict(x)`"
    if _library(item) is not None:
        table = any(base.__name__ == "DataFrame" for base in type(item).__mro__)
        return 'convert it: `x.to_dict("records")`' if table else "convert it: `x.tolist()`, or `x.isoformat()` for a time"
    for kinds, hint in (
        ((datetime.datetime, datetime.date, datetime.time), "convert it: `x.isoformat()`"),
        ((datetime.timedelta,), "convert it: `x.total_seconds()`"),
        ((decimal.Decimal,), "convert it: `float(x)` or `str(x)`"),
        ((set, frozenset), "convert it: `sorted(x)` or `list(x)`"),
        ((bytes, bytearray, memoryview), "convert it: `x.decode()`, or write it to a file"),
        ((pathlib.PurePath, complex), "convert it: `str(x)`"),
        ((collections.abc.Awaitable,), "await it: `await x`"),
        ((collections.abc.Iterable,), "convert it: `list(x)`"),
        ((types.FunctionType, types.BuiltinFunctionType, types.MethodType), "call it, or leave it out"),
        ((type, types.ModuleType), "leave it out"),
    ):
        if isinstance(item, kinds):
            return hint
    return "convert it: `vars(x)`, or `str(x)`"
