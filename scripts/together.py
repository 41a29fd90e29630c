"""Tries many changes of a crate with one compilation, for scripts/mutants --together.

A function that is to be changed has its body once more for each of its changes, and the environment says which one is taken:

    fn is_empty(&self) -> bool {            fn is_empty(&self) -> bool {
        self.len == 0                           match crate::mutated(3) {
    }                                               17 => { true }
                                                    18 => { self.len != 0 }
                                                    _ => { self.len == 0 }
                                                }
                                            }

Which changes there are says the list of cargo-mutants, and what becomes of one is the same as if it was compiled by itself. Bodies that
do not compile are taken out. What cannot be changed that way is left to cargo-mutants: constants, `const fn`, and functions that give
back `impl Trait`, of which each body would give another type.

Each test runs once by itself without a change, and notes which functions it comes by; with a change only those run that come by its
function, the quickest ones first. A change is caught if a test fails with it, and has no end if tests take far more processor time with
it than without, or wait for something that does not come.
"""

import argparse
import contextlib
import dataclasses
import fnmatch
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# What may have braces in it that are none.
LITERAL = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | (?<!\w)b?r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])'""",
    re.VERBOSE | re.DOTALL,
)
CONST = re.compile(r"\bconst\s+(unsafe\s+)?fn\b")
SWITCH = '''
/// Which change of the code is tried. Notes the functions that a test comes by, if that is wanted.
#[doc(hidden)]
pub fn mutated(function: u32) -> u32 {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::fs::File;
    use std::io::Write;
    use std::sync::{LazyLock, Mutex};
    static NUMBER: LazyLock<u32> =
        LazyLock::new(|| std::env::var("MUTANT").map_or(0, |number| number.parse().unwrap_or(0)));
    static NOTES: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
        let path = std::env::var_os("MUTANT_NOTES")?;
        let file = File::options().append(true).create(true).open(path).ok()?;
        Some(Mutex::new(file))
    });
    thread_local! {
        static NOTED: RefCell<HashSet<u32>> = RefCell::default();
    }
    if let Some(notes) = &*NOTES
        && NOTED.try_with(|noted| noted.borrow_mut().insert(function)) != Ok(false)
        && let Ok(mut file) = notes.lock()
    {
        let _ = file.write_all(format!("{function}\\n").as_bytes());
    }
    *NUMBER
}
'''
# What is denied otherwise, and would not keep a change from being compiled by itself.
ALLOWED = [
    "warnings", "missing_docs", "missing_debug_implementations", "unsafe_op_in_unsafe_fn", "arithmetic_overflow", "unconditional_panic",
]
# Tests with a change may take so many times as long as without, and so many seconds more, of processor time.
SLOWER, MORE_S = 5, 5
# How much of it the first tests take together.
FIRST_S = 0.1
# What waits for something that does not come does not even want processor time.
IDLE_S = 30
# It may also ask again and again.
WALL_S = 600
MEMORY = 6 << 30


@dataclasses.dataclass
class Mutant:
    """A change of the code."""

    number: int
    name: str
    file: str
    begin: int
    end: int
    replacement: str
    # Where its function is, if it is in one, and what it gives back.
    place: tuple[int, int] | None
    returns: str
    # The number of its function.
    function: int = 0


@dataclasses.dataclass
class Function:
    """A function that is changed, from the brace at which its body begins."""

    number: int
    begin: int
    body: int
    end: int
    mutants: list[Mutant] = dataclasses.field(default_factory=list)
    inner: list["Function"] = dataclasses.field(default_factory=list)
    is_inner: bool = False


class Source:
    """A file as it is without changes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = without_literals(text)
        self.lines = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]

    def place(self, span: dict) -> tuple[int, int]:
        begin, end = (self.lines[span[it]["line"] - 1] + span[it]["column"] - 1 for it in ("start", "end"))
        return begin, end

    def function(self, number: int, begin: int, end: int) -> Function | None:
        """The function there, if its body can be chosen while it runs."""
        depth = 0
        for at in range(end - 1, begin, -1):
            depth += {"}": 1, "{": -1}.get(self.code[at], 0)
            if depth == 0:
                is_const = CONST.search(self.code[begin:at])
                return None if is_const or at == end - 1 else Function(number, begin, at, end)
        return None


def without_literals(text: str) -> str:
    """The text with blanks for its comments and literals."""
    return LITERAL.sub(lambda found: " " * len(found[0]), text)


class InstrumentedSource:
    """A file with all its changes, and whose each of its characters is."""

    def __init__(self, source: Source, functions: list[Function]) -> None:
        self.source = source
        self.parts: list[str] = []
        self.owners: list[int] = []
        self.copy(0, len(source.text), [it for it in functions if not it.is_inner])
        self.text = "".join(self.parts)

    def put(self, text: str, owner: int = 0) -> None:
        self.parts.append(text)
        self.owners.extend([owner] * len(text))

    def copy(self, begin: int, end: int, functions: list[Function]) -> None:
        for function in functions:
            self.put(self.source.text[begin : function.body])
            self.choose(function)
            begin = function.end
        self.put(self.source.text[begin:end])

    def choose(self, function: Function) -> None:
        if not function.mutants:
            return self.copy(function.body, function.end, function.inner)
        self.put(f"{{ match crate::mutated({function.number}) {{\n")
        text = self.source.text
        for mutant in function.mutants:
            body = text[function.body : mutant.begin] + mutant.replacement + text[mutant.end : function.end]
            self.put(f"{mutant.number} => {body}\n", mutant.number)
        self.put("_ => ")
        self.copy(function.body, function.end, function.inner)
        self.put("\n} }")
        return None

    def owner(self, byte: int) -> int:
        """The change in which this byte is; 0 if it is in none."""
        at = len(self.text.encode()[:byte].decode(errors="ignore"))
        return self.owners[at] if at < len(self.owners) else 0


class MutationRun:
    """All changes of a list, in a copy of the tree."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.sources: dict[str, Source] = {}
        self.mutants: list[Mutant] = []
        for number, it in enumerate(json.loads(given.list.read_text(encoding="utf-8")), 1):
            if it["file"] not in self.sources:
                self.sources[it["file"]] = Source((given.tree / it["file"]).read_text(encoding="utf-8"))
            source = self.sources[it["file"]]
            begin, end = source.place(it["span"])
            place = it["function"] and source.place(it["function"]["span"])
            returns = it["function"]["return_type"] if place else ""
            self.mutants.append(Mutant(number, it["name"], it["file"], begin, end, it["replacement"], place, returns))
        # What a run that was interrupted has noted need not be found again.
        self.known = {
            name: path.stem for path in given.out.glob("*.txt") for name in path.read_text(encoding="utf-8").splitlines()
        }
        self.unviable = {it.number for it in self.mutants if self.known.get(it.name) == "unviable"}
        self.left: set[int] = set()

    def write(self) -> dict[str, InstrumentedSource]:
        """Writes each file with its changes."""
        changed = {}
        for file, source in self.sources.items():
            functions: dict[tuple[int, int], Function | None] = {}
            for mutant in (it for it in self.mutants if it.file == file):
                if not mutant.place or "impl " in mutant.returns:
                    self.left.add(mutant.number)
                    continue
                if mutant.place not in functions:
                    # That of its first change.
                    functions[mutant.place] = source.function(mutant.number, *mutant.place)
                function = functions[mutant.place]
                if not function or mutant.begin < function.body:
                    self.left.add(mutant.number)
                    continue
                mutant.function = function.number
                if mutant.number not in self.unviable:
                    function.mutants.append(mutant)
            found = sorted((it for it in functions.values() if it), key=lambda it: (it.begin, -it.end))
            for at, inner in enumerate(found):
                around = [it for it in found[:at] if it.end >= inner.end]
                inner.is_inner = bool(around)
                if around:
                    around[-1].inner.append(inner)
            changed[file] = InstrumentedSource(source, found)
            (self.given.tree / file).write_text(changed[file].text, encoding="utf-8")
        return changed

    def cargo(self, *arguments: str) -> tuple[subprocess.CompletedProcess, list[dict]]:
        command = ["cargo", *arguments, "--message-format=json"]
        done = subprocess.run(command, cwd=self.given.tree, capture_output=True, text=True, check=False)
        return done, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def tests(self) -> list["Test"]:
        """Compiles the tests, and leaves out the changes that do not compile."""
        while True:
            changed = self.write()
            done, messages = self.cargo("test", "--no-run", "--package", self.given.package, *self.given.tests)
            if done.returncode == 0:
                break
            errors = [it["message"] for it in messages if it.get("message", {}).get("level") == "error"]
            bad = {owner for error in errors if (owner := owner_of(error, changed))}
            if not bad:
                sys.exit(f"the tree does not compile:\n{done.stderr}" + "\n".join(it["rendered"] for it in errors))
            self.unviable |= bad
        for beyond in self.given.beyond:
            package, *tests = beyond.split(":")
            done, more = self.cargo("test", "--no-run", "--package", package, *tests)
            if done.returncode:
                sys.exit(f"the tests of {package} do not compile:\n{done.stderr}")
            messages += more
        built = [it for it in messages if it.get("executable") and it["profile"]["test"]]
        programs = {it["executable"]: TestProgram(it["executable"], Path(it["manifest_path"]).parent) for it in built}
        return sorted((test for program in programs.values() for test in program.tests(self.given)), key=lambda test: test.seconds)

    def outcomes(self, tests: list["Test"]) -> Iterator[tuple[Mutant, str]]:
        for mutant in self.mutants:
            if mutant.name in self.known:
                continue
            if mutant.number in self.left:
                yield mutant, "left"
            elif mutant.number in self.unviable:
                yield mutant, "unviable"
            else:
                chosen = [test for test in tests if mutant.function in test.functions]
                yield mutant, next(filter(None, map(lambda group: outcome(mutant, group), groups(chosen))), "missed")
                # Cases that proptest wants to try first the next time.
                for path in self.given.tree.rglob("*proptest-regressions*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def run(self) -> None:
        root = self.given.tree / self.given.root
        before = root.read_text(encoding="utf-8")
        if self.given.root in self.sources:
            sys.exit("the root of the crate cannot have changes")
        root.write_text(f"#![allow({', '.join(ALLOWED)})]\n{before}{SWITCH}", encoding="utf-8")
        tests = self.tests()
        for mutant, outcome in self.outcomes(tests):
            with (self.given.out / f"{outcome}.txt").open("a", encoding="utf-8") as file:
                file.write(f"{mutant.name}\n")
        root.write_text(before, encoding="utf-8")
        for file, source in self.sources.items():
            (self.given.tree / file).write_text(source.text, encoding="utf-8")


def owner_of(error: dict, changed: dict[str, InstrumentedSource]) -> int:
    """The change that an error is about; 0 if it is about none."""
    spans = [*sorted(error["spans"], key=lambda it: not it["is_primary"]), *(it for child in error["children"] for it in child["spans"])]
    owners = (changed[it["file_name"]].owner(it["byte_start"]) for it in spans if it["file_name"] in changed)
    return next(filter(None, owners), 0)


@dataclasses.dataclass(frozen=True)
class TestProgram:
    """A program of tests."""

    path: str
    folder: Path

    def tests(self, given: argparse.Namespace) -> Iterator["Test"]:
        """Its tests, each of which is run once by itself."""
        listed = subprocess.run([self.path, "--list", "--format=terse"], capture_output=True, text=True, check=True).stdout
        for name in sorted(line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")):
            if any(fnmatch.fnmatch(name, skipped) for skipped in given.skip):
                continue
            notes = given.out / "notes"
            notes.unlink(missing_ok=True)
            before = processor_time()
            if self.run({"MUTANT_NOTES": str(notes)}, math.inf, [name]):
                sys.exit(f"{name} fails without a change")
            functions = set(map(int, notes.read_text(encoding="utf-8").split())) if notes.exists() else set()
            if functions:
                yield Test(self, name, processor_time() - before, functions)

    def run(self, more: dict[str, str], seconds: float, tests: list[str]) -> int | None:
        """How these tests end, or all. `None`: not by themselves."""

        def begin() -> None:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if seconds != math.inf:
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))

        # All bodies of a function have their variables in the same frame.
        environment = os.environ | {"PROPTEST_MAX_SHRINK_ITERS": "0", "RUST_MIN_STACK": str(64 << 20)} | more
        with subprocess.Popen(
            [self.path, "--quiet", "--exact", *tests], cwd=self.folder, env=environment, preexec_fn=begin,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:
            wanted, since, began = 0, time.monotonic(), time.monotonic()
            while True:
                try:
                    code: int | None = process.wait(1 if time.monotonic() - since > 1 else 0.02)
                    break
                except subprocess.TimeoutExpired:
                    now = wanted_time(process.pid)
                    if now > wanted + 20_000_000:
                        wanted, since = now, time.monotonic()
                    if time.monotonic() - since > IDLE_S or time.monotonic() - began > WALL_S:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                        code = None
                        break
        return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code


@dataclasses.dataclass(frozen=True)
class Test:
    """A test."""

    program: TestProgram
    name: str
    # Of processor time, that it takes without a change.
    seconds: float
    # By which it comes.
    functions: set[int]


def groups(tests: list[Test]) -> Iterator[list[Test]]:
    """These tests, the quickest first, so that each group takes about as long as those before it."""
    before = FIRST_S
    while tests:
        program, taken, group = tests[0].program, 0.0, []
        for test in tests:
            if test.program == program and (not group or taken + test.seconds <= before):
                group.append(test)
                taken += test.seconds
        yield group
        before += taken
        tests = [test for test in tests if test not in group]


def outcome(mutant: Mutant, tests: list[Test]) -> str | None:
    """What becomes of a change by these tests of a program; `None` if they do not notice it."""
    seconds = MORE_S + SLOWER * sum(test.seconds for test in tests)
    code = tests[0].program.run({"MUTANT": str(mutant.number)}, seconds, [test.name for test in tests])
    return {None: "timeout", 0: None}.get(code, "caught")


def wanted_time(process: int) -> int:
    """Nanoseconds that a process has run, or waited for a processor."""
    total = 0
    for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            ran, waited, _ = thread.read_text(encoding="utf-8").split()
            total += int(ran) + int(waited)
    return total


def processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, required=True, help="the changes, as cargo mutants --list --json has them")
    parser.add_argument("--tree", type=Path, required=True, help="the copy of the tree; as before at the end")
    parser.add_argument("--package", required=True)
    parser.add_argument("--root", required=True, help="the root of the crate in the tree")
    parser.add_argument("--out", type=Path, required=True, help="a folder that gets the names of the changes, by their outcome")
    parser.add_argument("--beyond", action="append", default=[], metavar="PACKAGE:ARGUMENT…", help="tests of another package")
    parser.add_argument("--skip", action="append", default=[], metavar="GLOB", help="tests that are not run")
    parser.add_argument("tests", nargs="+", help="what cargo test is given to choose the tests")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    MutationRun(given).run()
    print(f"mutants: tried at once in {(time.monotonic() - began) / 60:.0f} minutes", flush=True)


if __name__ == "__main__":
    main()
