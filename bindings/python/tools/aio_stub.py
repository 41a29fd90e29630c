"""Makes the types of `statestore.aio` from those of the blocking face, so that they cannot differ, and writes the docstrings of the
installed package into the types of both, so that editors show them.

Run `python tools/aio_stub.py` after each change of `_blocking.pyi`, or of a docstring, with the package installed. With `--check`, it
fails if the files are not what it would write.
"""

import ast
import inspect
import re
import sys
from pathlib import Path

import statestore
from statestore import _native, aio

PACKAGE = Path(__file__).parent.parent / "python" / "statestore"

# What does not wait, or is waited for item by item.
PLAIN = {
    "client_id", "counters", "state", "states", "pipeline", "transaction", "scan", "scan_entries", "lease", "election",  # of a client
    "key", "error", "name", "token", "is_valid", "reason", "lost_reason", "guard",  # of things
    "__bool__", "__del__", "__len__",
}  # fmt: skip
# Classes of which only these methods are awaited.
AWAITED = {"Mirror": {"synced", "close"}, "MirrorChanges": {"next"}, "Pipeline": {"execute"}, "Transaction": set()}
# What is awaited, or used in `async with`.
OPENING = {"lock", "observe", "observe_matching", "mirror", "campaign", "connect"}
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
__all__ = [
    "Client",
    "Election",
    "Guard",
    "Leadership",
    "Lease",
    "Mirror",
    "MirrorChanges",
    "Observer",
    "Pipeline",
    "Scan",
    "Transaction",
    "connect",
]

class _AsyncContextCoroutine(Coroutine[object, object, _T_co], Generic[_T_co]):
    """A coroutine whose result is a context manager: ``await`` it, or use it in ``async with``."""

    def __init__(self, coroutine: Coroutine[object, object, _T_co]) -> None: ...
    def __await__(self) -> Generator[object, object, _T_co]: ...
    def send(self, value: object) -> object: ...
    def throw(self, *args: object) -> object: ...
    def close(self) -> None: ...
    async def __aenter__(self) -> _T_co: ...
    async def __aexit__(self, *_: object) -> None: ...

'''


def blocking() -> str:
    """The blocking face with the docstrings that it has now."""
    return documented(undocumented((PACKAGE / "_blocking.pyi").read_text()), statestore)


def native() -> str:
    return documented(undocumented((PACKAGE / "_native.pyi").read_text()), _native)


def asyncio() -> str:
    lines = undocumented((PACKAGE / "_blocking.pyi").read_text()).splitlines(keepends=True)
    return documented(HEAD + "".join(convert(lines[2:])), aio)


MADE = {"_blocking.pyi": blocking, "_native.pyi": native, "aio.pyi": asyncio}


def declared(text):
    """The classes and functions of a stub with their names, the last one first: ``Client``, ``Client.get``, ``connect``."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((node.name, node))
        if isinstance(node, ast.ClassDef):
            functions = (inner for inner in node.body if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found.extend((f"{node.name}.{inner.name}", inner) for inner in functions)
    return reversed(found)


def undocumented(text: str) -> str:
    """A stub without docstrings."""
    lines = text.splitlines(keepends=True)
    for _, node in declared(text):
        if ast.get_docstring(node) is None:
            continue
        first, last = node.body[0].lineno - 1, node.body[0].end_lineno
        del lines[first:last]
        if len(node.body) == 1:
            lines[first - 1] = lines[first - 1].rstrip() + " ...\n"
    return "".join(lines)


def documented(text: str, module) -> str:
    """A stub with the docstrings of a module."""
    lines = text.splitlines(keepends=True)
    for name, node in declared(text):
        doc = docstring(module, name)
        if doc is None:
            continue
        line = node.body[0].lineno - 1
        if isinstance(node, ast.ClassDef):
            line = node.lineno
        else:
            # Its body is `...`, at the end of the line.
            lines[line] = lines[line].removesuffix(" ...\n") + "\n"
            line += 1
        lines.insert(line, "".join(written(doc, node.col_offset + 4)))
    return "".join(lines)


def docstring(module, name):
    """What ``help`` shows, of what is public."""
    *within, last = name.split(".")
    if last.startswith("_") or not hasattr(module, name.split(".")[0]):
        return None
    thing = module
    for part in [*within, last]:
        thing = getattr(thing, part)
    return inspect.getdoc(thing)


def written(doc, indent):
    lines = doc.splitlines()
    raw = "r" if "\\" in doc else ""
    if len(lines) == 1:
        yield f'{" " * indent}{raw}"""{doc}"""\n'
        return
    yield f'{" " * indent}{raw}"""{lines[0]}\n'
    for line in lines[1:]:
        yield f'{" " * indent}{line}'.rstrip() + "\n"
    yield f'{" " * indent}"""\n'


def convert(lines):
    is_property = is_opening = False
    of = None
    for line in lines:
        if found := re.match(r"class (\w+)", line):
            of = found[1]
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
            is_async = is_async and name in AWAITED.get(of, {name})
            if is_async and not is_opening:
                line = line.replace(f"{indent}def ", f"{indent}async def ", 1)
        is_property = line.strip() == "@property"
        if is_opening:
            line = re.sub(r"\) -> (.*): \.\.\.$", r") -> _AsyncContextCoroutine[\1]: ...", line)
        line = line.replace(
            "change: Callable[[Entry[_V] | None], _Data | None],",
            "change: Callable[[Entry[_V] | None], _Data | None | Awaitable[_Data | None]],",
        ).replace("work: Callable[[Guard[_V]], _T],", "work: Callable[[Guard[_V]], Awaitable[_T]],")
        if line.startswith('_O = TypeVar("_O")'):
            line += '_T_co = TypeVar("_T_co", covariant=True)\n'
        yield line
        if line.startswith("    async def close("):
            yield line.replace("close", "aclose", 1)


def main() -> int:
    stale = []
    for name, make in MADE.items():
        path, text = PACKAGE / name, make()
        if path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(stale)}: out of date; run {__file__} with the package installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
