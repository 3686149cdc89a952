# `emit`: files of the workspace that are to go out with the result. What is checked here gives a clear answer; the host looks for
# itself what is there at the end.
import stat

_MOST_EMITTED = 64
_LONGEST_PATH = 4096
_MOST_SHOWN = 200


def _emitter(files):
    """The function `emit` of one program."""
    sent = set()

    def emit(what, *, name=None, type=None):
        """Lets a file of /workspace go out with the result: `emit("report.csv")`. Data goes out as a file of its own:
        `emit(data, name="report.json")`, where data is bytes, text, or what JSON can hold."""
        type = type if type is None else _media_type(type)
        data = None
        if name is None:
            if not isinstance(what, (str, os.PathLike)):
                raise TypeError(f'emit: {_kind(what)} needs a name, such as emit(data, name="report.json")')
        elif isinstance(what, os.PathLike):
            raise TypeError("emit: a path has its name already: leave `name` out")
        else:
            if isinstance(what, str) and _is_file(files, what):
                shown = _shown_path(what)
                raise TypeError(
                    f"emit: {shown} is a file of the workspace: leave `name` out to let that file go out; text goes out under a `name`"
                )
            data = _emitted_bytes(what)
        path = os.fspath(what if name is None else name)
        inner = _inner(files, path)
        _check_place(files, inner, path, data is not None)
        key = (inner, type)
        if len(sent) >= _MOST_EMITTED and key not in sent:
            raise ValueError(f"emit: {_shown_path(path)}: {_MOST_EMITTED} files go out already, which is the most")
        if data is not None:
            files.write(inner, data)
        if key not in sent:
            sent.add(key)
            _bridge.tell({"emit": {"path": inner, "type": type}})

    return emit


def _shown_path(path):
    return "`" + repr(path)[1:-1][:_MOST_SHOWN] + "`"


def _media_type(text):
    name = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
    if not isinstance(text, str):
        raise TypeError(f"emit: `type` is text, not {_kind(text)}")
    if len(text) > 127 or not re.fullmatch(f"{name}/{name}", text):
        raise ValueError(f"emit: {_shown_path(text)}: it is no media type such as `text/csv`, without parameters")
    return text.lower()


def _emitted_bytes(what):
    if isinstance(what, str):
        return what.encode("utf-8", "replace")
    if isinstance(what, (bytes, bytearray, memoryview)):
        return bytes(what)
    try:
        text = json.dumps(what, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        message, hint = _objection(what, error)
        raise TypeError(f"emit: {message}; {hint}") from None
    return text.encode("utf-8", "replace")


def _inner(files, path):
    """The path below the workspace, in its one form."""
    try:
        inner = files._place(path)[len(files._root) + 1 :] or "."
    except PermissionError:
        raise PermissionError(f"emit: {_shown_path(path)}: it is not below /workspace") from None
    plain = isinstance(path, str) and len(inner.encode("utf-8", "replace")) <= _LONGEST_PATH
    if not plain or re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", inner):
        raise ValueError(f"emit: {_shown_path(path)}: it is no plain name of a file")
    return inner


def _check_place(files, inner, path, may_be_made):
    """Follows no link on the way."""
    place, mode = files._root, stat.S_IFDIR
    for name in () if inner == "." else inner.split("/"):
        place = f"{place}/{name}"
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            if may_be_made:
                return
            raise FileNotFoundError(f"emit: {_shown_path(path)}: there is no such file") from None
        if stat.S_ISLNK(mode):
            raise ValueError(f"emit: {_shown_path(path)}: it is a link, or behind one: only plain files go out")
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"emit: {_shown_path(path)}: it is a folder: only files go out")
    if not stat.S_ISREG(mode):
        raise ValueError(f"emit: {_shown_path(path)}: it is no plain file")


def _is_file(files, text):
    """Whether a text is the path of a plain file of the workspace."""
    if not text or len(text) > _LONGEST_PATH:
        return False
    try:
        _check_place(files, _inner(files, text), text, False)
    except (OSError, ValueError):
        return False
    return True
