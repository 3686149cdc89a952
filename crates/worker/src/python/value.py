# A program's value as JSON. What JSON has no form for takes the form that its kind usually has there, and anything else its `repr`,
# of which the program's author is told. A run that did its work does not fail for the kind of its value.
import enum

_MAX_NOTICES = 5
_MAX_DEPTH = 100
_MAX_ITEMS = 1_000_000
_MAX_REPR = 4096
_CIRCULAR, _TOO_DEEP = "[circular]", "[nested too deeply]"
# Kinds of the library whose text says all there is, by module: one that no program imported has no values.
_TEXTS = (("uuid", "UUID"), ("fractions", "Fraction"), ("zoneinfo", "ZoneInfo")) + tuple(
    ("ipaddress", f"IPv{version}{kind}") for version in (4, 6) for kind in ("Address", "Network", "Interface")
)


def _represent(value):
    """JSON text, and what its author should know about it."""
    try:
        return _dump(value), []
    except (TypeError, ValueError, RecursionError, OverflowError):
        plain = _Plain()
        return _dump(plain.form(value, "value", 0)), plain.notices()


def _dump(value):
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, allow_nan=False)
    return text


class _Plain:
    """Turns one value into dicts, lists, texts and numbers."""

    def __init__(self):
        self._above, self._notices, self._more = set(), [], 0

    def notices(self):
        rest = [f"{self._more} more parts of the value are given in another form"] if self._more else []
        return self._notices + rest

    def form(self, item, where, depth):
        if item is None or isinstance(item, (str, bool, int)):
            return _exact(item)
        if isinstance(item, float):
            number = float(item)
            if _present(number) is not None:
                return number
            if number != number and _library(item) is not None:
                return None  # numpy's word for what is missing
            return self._instead(None, where, repr(number), "null", "replace it, for example by None")
        if id(item) in self._above:
            hint = "leave it out, or return only the fields you need"
            return self._instead(_CIRCULAR, where, "a reference back to what holds it", f"`{_CIRCULAR}`", hint)
        if depth > _MAX_DEPTH:
            return self._instead(_TOO_DEEP, where, "nested very deeply", f"`{_TOO_DEEP}`", "return a flatter value")
        self._above.add(id(item))
        try:
            return self._kind(item, where, depth + 1)
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a value whose own methods fail
            return self._by_repr(item, where)
        finally:
            self._above.discard(id(item))

    def _kind(self, item, where, depth):
        if isinstance(item, type):
            return self._by_repr(item, where)
        if isinstance(item, enum.Enum):
            return self.form(item.value, where, depth)
        if isinstance(item, (datetime.datetime, datetime.date, datetime.time)):
            return item.isoformat() if item == item else None
        if isinstance(item, datetime.timedelta):
            return item.total_seconds() if item == item else None
        if isinstance(item, (decimal.Decimal, pathlib.PurePath, complex)) or _is_text(item):
            return str(item)
        if isinstance(item, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(item), where)
        if isinstance(item, BaseException):
            return self._object(_error_fields(item), where, depth)
        if dataclasses.is_dataclass(item):
            fields = [(field.name, getattr(item, field.name)) for field in dataclasses.fields(item)]
            return self._object(fields, where, depth)
        library = _library(item)
        if library == "numpy":
            return self._numpy(item, where, depth)
        if library == "pandas":
            return self._pandas(item, where, depth)
        return self._container(item, where, depth)

    def _container(self, item, where, depth):
        """Only what has an end: an iterator may have none, and is used up by looking."""
        if isinstance(item, collections.abc.Collection) and len(item) > _MAX_ITEMS:
            return self._by_repr(item, where)
        if isinstance(item, collections.abc.Mapping):
            return self._object(item.items(), where, depth)
        for method in ("model_dump", "to_dicts", "to_list", "tolist"):
            if callable(getattr(type(item), method, None)):
                return self.form(getattr(item, method)(), where, depth)
        if isinstance(item, collections.abc.Set) and not isinstance(item, collections.abc.MappingView):
            return self._list(_in_order(item), where, depth)
        if isinstance(item, collections.abc.Collection):
            return self._list(item, where, depth)
        return self._by_repr(item, where)

    def _list(self, items, where, depth):
        return [self.form(part, f"{where}[{index}]", depth) for index, part in enumerate(items)]

    def _object(self, pairs, where, depth):
        pairs = list(pairs)
        named = {self._key(key, where): (key, part) for key, part in pairs}
        if len(named) < len(pairs):
            form = [[self.form(key, where, depth), self.form(part, f"{where}[{key!r}]", depth)] for key, part in pairs]
            hint = "use strings as keys: `{str(k): v for k, v in d.items()}`"
            return self._instead(form, where, "a dict whose keys are the same as text", "a list of pairs", hint)
        return {name: self.form(part, f"{where}[{key!r}]", depth) for name, (key, part) in named.items()}

    def _key(self, key, where):
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, enum.Enum):
            return self._key(key.value, where)
        if key is None or isinstance(key, (bool, int, float)):
            return json.dumps(key)
        if isinstance(key, (datetime.datetime, datetime.date, datetime.time)):
            return key.isoformat()
        if not isinstance(key, (decimal.Decimal, pathlib.PurePath, datetime.timedelta)) and not _is_text(key) and not _is_scalar(key):
            hint = "use strings as keys: `{str(k): v for k, v in d.items()}`"
            self._instead(None, where, f"a dict with {_kind(key)} as a key", "its text", hint)
        return str(key)

    def _bytes(self, data, where):
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            form = base64.b64encode(data).decode("ascii")
            return self._instead(form, where, "bytes that are no UTF-8 text", "base64", "write it to a file and `emit` it")

    def _numpy(self, item, where, depth):
        kind = getattr(getattr(item, "dtype", None), "kind", None)
        if kind == "M":
            return _without_nat(item.astype(str).tolist())
        if kind == "m":
            seconds = item / sys.modules["numpy"].timedelta64(1, "s")
            return self._cells(seconds.tolist(), where, depth)
        if kind in ("f", "c") and item.ndim == 0:
            return _present(float(item)) if kind == "f" else str(complex(item))
        if callable(getattr(item, "tolist", None)):
            return self._cells(item.tolist(), where, depth)
        return self._by_repr(item, where)

    def _pandas(self, item, where, depth):
        kinds = {base.__name__ for base in type(item).__mro__}
        if "NAType" in kinds:
            return None
        if "DataFrame" in kinds:
            return self._table(item, where, depth)
        if "Series" in kinds:
            if item.index.nlevels > 1:
                return self._table(item.to_frame("value" if item.name is None else item.name), where, depth)
            cells, labels = [_missing(cell) for cell in item.tolist()], item.index.tolist()
            if labels == list(range(len(cells))) and item.index.name is None:
                return self._list(cells, where, depth)
            return self._object(zip(labels, cells), where, depth)
        if callable(getattr(item, "tolist", None)):
            return self._cells(item.tolist(), where, depth)
        if kinds & {"Interval", "Period"}:
            return str(item)
        return self._by_repr(item, where)

    def _table(self, table, where, depth):
        """Records, with the index where it has a name or holds more than whole numbers."""
        index = table.index
        if index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu":
            try:
                table = table.reset_index()
            except ValueError:
                pass  # the index is a column already
        names = [self._column(name, where) for name in table.columns.tolist()]
        columns = [[_missing(cell) for cell in table.iloc[:, at].tolist()] for at in range(len(names))]
        rows = list(zip(*columns))
        if len(set(names)) < len(names):
            return {"columns": names, "rows": [self._list(row, f"{where}[{at}]", depth) for at, row in enumerate(rows)]}
        return [self._object(zip(names, row), f"{where}[{at}]", depth) for at, row in enumerate(rows)]

    def _column(self, name, where):
        if isinstance(name, tuple):
            return "_".join(str(part) for part in name if part != "")
        return self._key(name, where)

    def _cells(self, cells, where, depth):
        """Numbers of a library that has its own word for what is missing."""
        if isinstance(cells, list):
            return [self._cells(cell, f"{where}[{at}]", depth + 1) for at, cell in enumerate(cells)]
        return self.form(_missing(cells), where, depth)

    def _by_repr(self, item, where):
        try:
            text = repr(item)
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            text = object.__repr__(item)
        cut = text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "…"
        return self._instead(cut, where, _kind(item), "its `repr`", _advice(item))

    def _instead(self, form, where, what, given, hint):
        if len(self._notices) < _MAX_NOTICES:
            where = "the value" if where == "value" else where[:_MAX_REPR]
            self._notices.append(f"{where} is {what}, which JSON cannot hold: {given} is given instead; {hint}")
        else:
            self._more += 1
        return form


def _exact(item):
    """Without what a subclass would make of it."""
    if isinstance(item, str):
        return str.__str__(item)
    return item if item is None or isinstance(item, bool) else int(item)


def _present(number):
    return number if number - number == 0 else None


def _missing(cell):
    return None if isinstance(cell, float) and cell != cell else cell


def _without_nat(texts):
    if isinstance(texts, list):
        return [_without_nat(text) for text in texts]
    return None if texts == "NaT" else str.__str__(texts)


def _is_text(item):
    loaded = ((sys.modules.get(module), name) for module, name in _TEXTS)
    return any(isinstance(item, getattr(module, name)) for module, name in loaded if module is not None)


def _library(item):
    """`numpy` or `pandas`, also of a class derived from one of theirs."""
    roots = ((base.__module__ or "").partition(".")[0] for base in type(item).__mro__)
    return next((root for root in roots if root in ("numpy", "pandas")), None)


def _is_scalar(item):
    """A number or a moment of numpy or pandas."""
    return _library(item) is not None and getattr(item, "ndim", 0) == 0


def _in_order(items):
    try:
        return sorted(items)
    except Exception:  # kinds that do not compare
        return list(items)


def _error_fields(error):
    fields = [("type", type(error).__name__), ("message", str(error))]
    if isinstance(error, ToolError):
        fields[1:1] = [("code", error.code)]
        fields += [("rule", error.rule), ("hint", error.hint), ("tool", error.tool), ("retry_after_ms", error.retry_after_ms)]
    return fields
