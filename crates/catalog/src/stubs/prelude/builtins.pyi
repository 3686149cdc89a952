# What every program finds besides Python itself and its tools.
import os
import skills as skills
import tools as tools
from builtins import list as __list
from typing_extensions import Any, Literal, overload

class ToolError(Exception):
    """A call that was refused or failed."""

    message: str
    """What is wrong, in a sentence."""
    code: str
    """A stable word such as `policy.denied`."""
    rule: str | None
    """The policy's rule that decided, if one did."""
    hint: str | None
    """What to do instead, if that is known."""
    tool: str | None
    """The tool that was called."""
    retry_after_ms: int | None
    """In how many milliseconds it is worth trying again, if that is known."""
    def __init__(
        self,
        message: str,
        code: str = ...,
        rule: str | None = ...,
        hint: str | None = ...,
        tool: str | None = ...,
        retry_after_ms: int | None = ...,
    ) -> None: ...

class __Files:
    def read(self, path: str | os.PathLike[str], encoding: str = ...) -> str: ...
    def read_bytes(self, path: str | os.PathLike[str]) -> bytes: ...
    def write(self, path: str | os.PathLike[str], data: str | bytes | bytearray | memoryview) -> None:
        """Makes the folders above."""
    def list(self, path: str | os.PathLike[str] = ...) -> __list[str]:
        """Names in a folder, sorted; folders end in a slash."""

files: __Files
"""Files below /workspace; relative paths start there."""
@overload
def emit(what: str | os.PathLike[str], *, type: str | None = ...) -> None:
    """Lets a file of /workspace go out with the result, as it is at the end; `type` is a media type such as `text/csv`."""

@overload
def emit(what: object, *, name: str | os.PathLike[str], type: str | None = ...) -> None:
    """Lets data go out as the file `name` below /workspace: text, bytes, or anything that JSON can hold."""

args: __list[str]
"""What was given to the program on the command line."""

async def search(
    query: str | __list[str] | tuple[str, ...] | None = ...,
    *,
    intents: __list[str] = ...,
    task: str = ...,
    detail: Literal["names", "summary", "signature", "full"] = ...,
    language: Literal["typescript", "python", "json"] = ...,
    limit: int = ...,
    cursor: str = ...,
) -> Any:
    """Finds tools by what they do: one short phrase, or several, each answered."""

async def describe(
    *tools: str | __list[str],
    detail: Literal["names", "summary", "signature", "full"] = ...,
    language: Literal["typescript", "python", "json"] = ...,
) -> Any:
    """Tells more of tools by their names."""

async def list_tools(server: str | None = ..., *, domain: str = ..., cursor: str = ...) -> Any:
    """The servers, or the tools of one."""
