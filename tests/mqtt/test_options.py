"""Every option of the server has its effect, whether it is given by a flag, by a variable of the environment or in a file."""

import re
import subprocess

import pytest

from option_groups import GROUPS
from optioned import WAYS, Served, clean_environment, run
from server import HANG_TIMEOUT, binary, lacks

# Options that are not valid in a file; each has its own test below.
RUNS = {"config", "check", "help", "version"}


def options():
    """The options that the program lists."""
    text = subprocess.run([binary(), "--help"], check=True, capture_output=True, text=True, timeout=HANG_TIMEOUT).stdout
    return re.findall(r"^ {2}(?:-\w, | {4})--([a-z-]+)", text, re.MULTILINE)


def effects(group):
    """The options whose effects a group asserts."""
    return [name.replace("_", "-") for name in dir(group) if hasattr(getattr(group, name), "is_effect")]


TABLE = [(group, way, option) for group in GROUPS for way in WAYS for option in effects(group)]


def test_every_option_has_a_row():
    listed = options()
    # A server without an engine does not list options that only this engine has.
    rows = [
        option for group, way, option in TABLE
        if way == WAYS[0] and (option in listed or not (group.engine and lacks(group.engine)))
    ]  # fmt: skip
    assert sorted([*rows, *RUNS]) == sorted(listed)


@pytest.fixture(scope="module")
def group(request, tools, tmp_path_factory):
    kind, way = request.param
    if kind.engine and lacks(kind.engine):
        pytest.skip(f"the server was built without {kind.engine}")
    group = kind(way, tmp_path_factory.mktemp(f"{kind.__name__}-{way}"), tools)
    group.start()
    yield group
    group.end()


@pytest.mark.parametrize(
    "group, option",
    [((group, way), option) for group, way, option in TABLE],
    indirect=["group"],
    scope="module",
    ids=[f"{option}-{way}" for _, way, option in TABLE],
)
def test_an_option_has_its_effect(group, option):
    getattr(group, option.replace("-", "_"))()
    group.settle()


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_the_file_of_config_is_read(way, tmp_path):
    file = tmp_path / "other.toml"
    file.write_text('storage = "memory"\nlisten = ["tcp://127.0.0.1:0"]\nmax-packet-bytes = 2_000\n')
    server = Served(way, {"config": file, "listen": ["tcp://127.0.0.1:0"]}, tmp_path)
    try:
        assert server.peer("client").connack.MaximumPacketSize == 2_000
    finally:
        server.close()


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_check_ends_without_serving(way, tmp_path):
    ended = run(way, {"check": True, "storage": "memory"}, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "the configuration can be used\n")


@pytest.mark.parametrize("option, begin", [("--help", "A state store"), ("--version", "statestored ")])
def test_help_and_version_are_printed(option, begin, tmp_path):
    ended = subprocess.run([binary(), option], env=clean_environment(tmp_path), capture_output=True, text=True, timeout=HANG_TIMEOUT)
    assert ended.returncode == 0 and ended.stdout.startswith(begin)


@pytest.mark.parametrize("option", sorted(RUNS))
def test_a_file_cannot_have_options_of_the_command_line(option, tmp_path):
    file = tmp_path / "options.toml"
    file.write_text(f"{option} = true\n")
    ended = run("flag", {"config": file}, tmp_path)
    assert ended.returncode == 1 and f"there is no option `{option}`" in ended.stderr
