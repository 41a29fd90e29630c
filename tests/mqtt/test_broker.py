"""What differs behind a broker: tests/vectors/attached.json says it, and docs/attached.md."""

import ast
import re
from pathlib import Path

import broker

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "attached.md"


def test_the_documentation_has_the_same_table():
    rows = [f"| {it['what']} | {it['listener']} | {it['broker']} |" for it in broker.DIFFERENCES]
    assert "\n".join(rows) in DOCUMENT.read_text()


def test_the_tests_that_differ_are_there():
    there = {
        it.name
        for file in HERE.glob("test_*.py")
        for it in ast.parse(file.read_text()).body
        if isinstance(it, ast.FunctionDef)
    }
    # Those of the vendor's client.
    for file in (HERE.parent / "interop" / "tests").glob("*.rs"):
        there.update(re.findall(r"^async fn (\w+)", file.read_text(), re.MULTILINE))
    named = [test for it in broker.DIFFERENCES for test in it["tests"]]
    assert [test for test in named if test.split("[")[0] not in there] == []
