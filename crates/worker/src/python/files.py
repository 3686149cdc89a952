# `files`: reading and writing below the workspace. The paths are checked for clear answers; the jail is the wall.
import os


class Files:
    """Files in /workspace: read, read_bytes, write, list. Relative paths start there."""

    __slots__ = ("_root",)
    _SHOWN = "/workspace"

    def __init__(self, root=_SHOWN):
        object.__setattr__(self, "_root", root)

    def __setattr__(self, name, value):
        raise AttributeError("files cannot be changed")

    def __repr__(self):
        return "<files in /workspace>"

    def _place(self, path):
        path = os.fspath(path)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        inner = os.path.normpath(os.path.join(self._SHOWN, path))
        if inner != self._SHOWN and not inner.startswith(self._SHOWN + "/"):
            raise PermissionError(f"files: `{path}` is not below {self._SHOWN}")
        return self._root + inner[len(self._SHOWN):]

    def read(self, path, encoding="utf-8"):
        """The file's text."""
        with open(self._place(path), encoding=encoding, newline="") as file:
            return file.read()

    def read_bytes(self, path):
        """The file's bytes."""
        with open(self._place(path), "rb") as file:
            return file.read()

    def write(self, path, data):
        """Writes text or bytes, making the folders above."""
        if isinstance(data, str):
            data = data.encode("utf-8")
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            kind = type(data).__name__
            raise TypeError(f"files.write: cannot write a {kind}: give a str or bytes, for example json.dumps(value)")
        place = self._place(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data)

    def list(self, path="."):
        """Names in a folder, sorted; folders end in a slash."""
        with os.scandir(self._place(path)) as entries:
            return sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
