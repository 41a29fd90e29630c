"""The examples in docstrings and in the guides are right."""

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import statestore
from statestore import _results

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "bindings/python/examples").glob("*.py"))


def documented():
    classes = [statestore.Hlc, *(getattr(_results, name) for name in _results.__all__ if name != "Observation")]
    for name in ("Client", "Observer", "Scan", "Lease", "Guard", "Election", "Leadership"):
        cls = getattr(statestore, name)
        classes.append(cls)
        for member in sorted(vars(cls) | vars(cls.__mro__[2])):
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


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", ["README.md", "bindings/python/README.md", "docs/python.md", "docs/howto.md"])
def test_the_programs_of_a_guide(path, statestore_server):
    programs = [block for block in blocks(ROOT / path) if "import" in block and ".connect(" in block]
    assert programs
    for program in programs:
        program = program.replace("mqtt://127.0.0.1:1883", statestore_server.url)
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize("path", ["docs/python.md", "docs/howto.md", "docs/migration.md"])
def test_the_sessions_of_a_guide(path, statestore_client):
    sessions = [block for block in blocks(ROOT / path) if block.startswith(">>>")]
    assert sessions
    for session in sessions:
        check(path, session, client=statestore_client, statestore=statestore)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example(path, statestore_server):
    """Each example takes the URL, and ends by itself with ``--once``."""
    done = subprocess.run(
        [sys.executable, "-W", "error", path, statestore_server.url, "--once"],
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
