"""`python -m statestore` runs the program `statestore`."""

import os
import signal
import subprocess
import sys
import sysconfig

import pytest
from conftest import HANG_TIMEOUT

COMMAND = [sys.executable, "-m", "statestore"]
PROGRAM = f"""#!{sys.executable}
import signal, sys

def interrupted(*_):
    print("interrupted", flush=True)
    sys.exit(5)

signal.signal(signal.SIGINT, interrupted)
print(*sys.argv[1:], flush=True)
if sys.argv[1:] == ["wait"]:
    signal.pause()
sys.exit(3)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the program of the test is a script with an interpreter line")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "statestore"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def environment(**variables):
    inherited = {name: value for name, value in os.environ.items() if name not in ("STATESTORE_BIN", "PATH")}
    return {**inherited, "PATH": "", **variables}


def run(*arguments, **variables):
    return subprocess.run(
        [*COMMAND, *arguments], env=environment(**variables), capture_output=True, text=True, timeout=HANG_TIMEOUT, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("how", ["STATESTORE_BIN", "PATH"])
def test_arguments_and_exit_code_are_passed_on(program, how):
    done = run("get", "a key", "--json", **{how: str(program if how == "STATESTORE_BIN" else program.parent)})
    assert (done.returncode, done.stdout, done.stderr) == (3, "get a key --json\n", "")


def test_ctrl_c_is_passed_on(program):
    variables = environment(STATESTORE_BIN=str(program))
    with subprocess.Popen([*COMMAND, "wait"], env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "wait\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(HANG_TIMEOUT) == 5


def test_without_the_program_one_sentence_says_so(tmp_path):
    assert not os.path.exists(os.path.join(sysconfig.get_path("scripts"), "statestore"))
    done = run("get", "key")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == (
        "python -m statestore: there is no program `statestore` on PATH; install the command line, or set STATESTORE_BIN to its path\n"
    )
    done = run("get", "key", STATESTORE_BIN=str(tmp_path / "none"))
    assert done.returncode == 127
    assert done.stderr.startswith("python -m statestore: STATESTORE_BIN is ") and done.stderr.count("\n") == 1
