"""Makes the types of `statestore.aio` from those of the blocking face, so that they cannot differ.

Run `python tools/aio_stub.py` after each change of `_blocking.pyi`. With `--check`, it fails if `aio.pyi` is not what it
would write.
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "python" / "statestore"

# What does not wait, or is waited for item by item.
PLAIN = {
    "client_id", "counters", "state", "states", "scan", "lease", "election",  # of a client
    "key", "error", "name", "token", "is_valid", "reason", "lost_reason", "guard",  # of things
    "__bool__", "__del__",
}  # fmt: skip
# What is awaited, or used in `async with`.
OPENING = {"lock", "observe", "campaign", "connect"}
DUNDERS = {
    "    def __enter__": "    async def __aenter__",
    "    def __exit__": "    async def __aexit__",
    "    def __iter__": "    def __aiter__",
    "    def __next__": "    async def __anext__",
}
HEAD = """\
# Made by `tools/aio_stub.py` from `_blocking.pyi`.
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
"""
OPENING_CLASS = '''\
__all__ = ["Client", "Election", "Guard", "Leadership", "Lease", "Observer", "Scan", "connect"]

class _Opening(Coroutine[object, object, _T_co], Generic[_T_co]):
    """A coroutine whose result is a context manager: ``await`` it, or use it in ``async with``."""

    def __init__(self, coroutine: Coroutine[object, object, _T_co]) -> None: ...
    def __await__(self) -> Generator[object, object, _T_co]: ...
    def send(self, value: object) -> object: ...
    def throw(self, *args: object) -> object: ...
    def close(self) -> None: ...
    async def __aenter__(self) -> _T_co: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

'''


def made() -> str:
    lines = (PACKAGE / "_blocking.pyi").read_text().splitlines(keepends=True)
    return HEAD + "".join(convert(lines[2:]))


def convert(lines):
    is_property = is_opening = False
    for line in lines:
        if line.startswith("class Client"):
            yield OPENING_CLASS
        for blocking, aio in DUNDERS.items():
            if line.startswith(blocking):
                line = line.replace(blocking, aio, 1).replace("Iterator[", "AsyncIterator[")
        found = re.match(r"( *)def (\w+)\(", line)
        if found:
            indent, name = found.groups()
            is_opening = name in OPENING
            is_async = name not in PLAIN and not is_property and name != "__aiter__"
            if is_async and not is_opening:
                line = line.replace(f"{indent}def ", f"{indent}async def ", 1)
        is_property = line.strip() == "@property"
        if is_opening:
            line = re.sub(r"\) -> (.*): \.\.\.$", r") -> _Opening[\1]: ...", line)
        line = line.replace(
            "change: Callable[[Entry[_V] | None], _Data | None],",
            "change: Callable[[Entry[_V] | None], _Data | None | Awaitable[_Data | None]],",
        ).replace("work: Callable[[Guard[_V]], _T],", "work: Callable[[Guard[_V]], Awaitable[_T]],")
        if line.startswith('_O = TypeVar("_O")'):
            line += '_T_co = TypeVar("_T_co", covariant=True)\n'
        yield line


def main() -> int:
    path = PACKAGE / "aio.pyi"
    if "--check" in sys.argv:
        return 0 if path.read_text() == made() else f"{path} is out of date: run {__file__}"
    path.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
