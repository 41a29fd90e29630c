"""What is published."""

from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("package", ["statestore", "statestore-server"])
@pytest.mark.parametrize("text", ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"])
def test_each_package_has_the_texts_of_its_licences(package, text):
    (packed,) = (path for path in metadata.files(package) if path.name == text)
    assert packed.read_text() == (ROOT / text).read_text()
