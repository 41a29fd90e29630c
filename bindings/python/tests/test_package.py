"""What is published."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import statestore

# What takes long to import, and is not needed before there is a client.
SLOW = {"asyncio", "contextlib", "dataclasses", "difflib", "inspect", "logging", "re", "threading", "typing"}
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("package", ["statestore", "statestore-server"])
@pytest.mark.parametrize("text", ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"])
def test_each_package_has_the_texts_of_its_licences(package, text):
    (packed,) = (path for path in metadata.files(package) if path.name == text)
    assert packed.read_text() == (ROOT / text).read_text()


def test_the_import_loads_no_slow_modules():
    program = "import sys; before = {*sys.modules}; import statestore; print(*{*sys.modules} - before)"
    # Without `site`, whose hooks import what they like.
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(Path(statestore.__file__).parents[1])!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "statestore._native" in done.stdout.split()
    assert not SLOW & {*done.stdout.split()}


def test_lazy_names_are_available():
    assert {*statestore.__all__} <= {*dir(statestore)}
    assert statestore.Entry is sys.modules["statestore._results"].Entry
    with pytest.raises(AttributeError, match="nothing_like_that"):
        statestore.nothing_like_that  # noqa: B018
