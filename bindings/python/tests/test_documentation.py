"""The examples in docstrings and in the guides are right."""

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import statestore
from statestore import _results, aio

ROOT = Path(__file__).parents[3]


def documented():
    results = [getattr(_results, name) for name in _results.__all__ if not name.endswith("Observation")]
    classes = [statestore.Hlc, statestore.State, *results]
    for name in ("Client", "Mirror", "MirrorChanges", "Observer", "Scan", "Lease", "Guard", "Election", "Leadership"):
        cls = getattr(statestore, name)
        classes.append(cls)
        for member in dir(cls):
            if not member.startswith("_"):
                yield f"{name}.{member}", inspect.getdoc(getattr(cls, member))
    for cls in classes:
        yield cls.__name__, inspect.getdoc(cls)
    yield "connect", inspect.getdoc(statestore.connect)


CASES = [(name, doc) for name, doc in documented() if ">>>" in (doc or "")]


def check(name, text, **names):
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    results = doctest.DocTestRunner(verbose=False).run(test)
    assert results.attempted and not results.failed


@pytest.mark.parametrize(("name", "doc"), CASES, ids=[name for name, _ in CASES])
def test_a_docstring(name, doc, statestore_client):
    check(name, doc, client=statestore_client, statestore=statestore)


def test_enough_docstrings_have_examples():
    assert len(CASES) >= 15


def awaited():
    """The examples of `statestore.aio`."""
    for name in aio.__all__:
        cls = getattr(aio, name)
        for member in sorted(dir(cls)) if inspect.isclass(cls) else ():
            doc = inspect.getdoc(getattr(cls, member))
            if not member.startswith("_") and ">>>" in (doc or ""):
                yield f"{name}.{member}", doc


AWAITED = list(awaited())


@pytest.mark.parametrize(("name", "doc"), AWAITED, ids=[name for name, _ in AWAITED])
def test_a_docstring_of_asyncio(name, doc, statestore_server):
    checker = doctest.OutputChecker()
    names = {"statestore": statestore}

    async def run():
        async with aio.connect(statestore_server.url) as names["client"]:
            for example in doctest.DocTestParser().get_examples(doc):
                mode = "exec" if example.source.startswith(("async with", "def", "from")) else "single"
                shown = await shown_by(example.source, mode)
                options = sum(flag for flag, is_set in example.options.items() if is_set)
                if mode == "single":
                    assert checker.check_output(example.want, shown, options), (example.source, example.want, shown)

    async def shown_by(source, mode):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = compile(source, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            made = types.FunctionType(code, names)()
            if inspect.iscoroutine(made):
                await made
        return out.getvalue()

    asyncio.run(run())


def test_asyncio_has_the_examples_of_the_blocking_client_with_await():
    blocking = {name for name, doc in CASES if "." in name}
    assert blocking - {"Client.with_lock"} <= {name for name, _ in AWAITED}
    waiting = [name for name, doc in AWAITED if not re.search(r"\b(await|async)\b", doc)]
    assert waiting == ["Client.state"]


sys.path.insert(0, str(ROOT / "docs"))
BLOCKS = importlib.import_module("blocks").blocks("python")


def kind_of(block):
    if block.code.startswith(">>>"):
        return "session"
    return "test" if re.search(r"^(async )?def test_", block.code, re.MULTILINE) else "program"


def cases(kind):
    found = [block for block in BLOCKS if kind_of(block) == kind]
    return pytest.mark.parametrize("block", found, ids=str)


@cases("program")
def test_a_program_of_the_guides(block, statestore_server):
    program = block.code.replace("mqtt://127.0.0.1:1883", statestore_server.url)
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60, capture_output=True)


@cases("session")
def test_a_session_of_the_guides(block, statestore_client):
    check(str(block), block.code, client=statestore_client, statestore=statestore)


@pytest.mark.parametrize("block", [block for block in BLOCKS if kind_of(block) == "session" and ".update(" in block.code], ids=str)
def test_a_session_with_updates_can_be_run_again(block, statestore_client):
    for _ in range(2):
        check(str(block), block.code, client=statestore_client, statestore=statestore)


@cases("test")
def test_a_test_of_the_guides(block, tmp_path):
    suite = tmp_path / "test_of_the_guide.py"
    suite.write_text(block.code)
    pytest_of_its_own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, suite]
    done = subprocess.run(pytest_of_its_own, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0 and " skipped" not in done.stdout, done.stdout
