#!/usr/bin/env python3
"""The pages of promises and drills name tests, planted faults and alerts that there are.

    docs/promises.py check

In a table of promises.md, `FOLDER/FILE: NAME` is a test of that name in that file, `FOLDER/FILE` a file all of whose tests count, and
`simulation` the test that most promises share. `NAME` in the last column is a patch of tests/planted. Each patch has to be named.

In drills.md, each section names the test of its drill in the same way, and each test of tests/mqtt/test_*drills.py has a section.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/promises.md"
PLANTED = ROOT / "tests/planted"
DRILLS = ROOT / "docs/drills.md"
ALERTS = ROOT / "packaging/prometheus/statestored.rules.yml"
SHORT = {"simulation": "tests/simulation/tests/seeds.rs: every_seed_holds"}


def test_problem(reference: str) -> str | None:
    """What is wrong with a reference to a test."""
    file, _, name = SHORT.get(reference, reference).partition(": ")
    path = ROOT / file
    if not path.exists():
        return f"there is no {file}"
    if name and not re.search(rf"\b(?:fn|def) {re.escape(name)}\b|[\"'`]{re.escape(name)}[\"'`]", path.read_text(encoding="utf-8")):
        return f"{file} has no test {name}"
    return None


def drill_problems() -> list[str]:
    """What is wrong with the page of drills."""
    text = DRILLS.read_text(encoding="utf-8")
    problems, named = [], set()
    for section in text.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        tests = re.findall(r"`([^`]+: \w+)`", section.rpartition("\nTest")[2])
        if not tests:
            problems.append(f"{title}: no test proves this drill")
        problems += [f"{title}: {problem}" for problem in map(test_problem, tests) if problem]
        named |= set(tests)
    for file in sorted((ROOT / "tests/mqtt").glob("test_*drills.py")):
        of_file = [f"{file.relative_to(ROOT)}: {name}" for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)]
        problems += [f"no drill names {test}" for test in of_file if test not in named]
    alerts = set(re.findall(r"alert: (\w+)", ALERTS.read_text(encoding="utf-8")))
    problems += [f"there is no alert {name}" for name in sorted(set(re.findall(r"`(Statestored\w+)`", text)) - alerts)]
    return [f"docs/drills.md: {problem}" for problem in problems]


def main() -> None:
    if sys.argv[1:] != ["check"]:
        sys.exit(__doc__)
    problems, named, promises = [], set(), 0
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] == "promise" or line.startswith("|---"):
            continue
        promises += 1
        tests, faults = re.findall(r"`([^`]+)`", cells[1]), re.findall(r"`([^`]+)`", cells[2])
        if cells[2].startswith("none"):
            faults = []
        if not tests:
            problems.append(f"{number}: no test keeps this promise")
        problems += [f"{number}: {problem}" for problem in map(test_problem, tests) if problem]
        problems += [f"{number}: there is no planted fault {name}" for name in faults if not (PLANTED / f"{name}.patch").exists()]
        named |= set(faults)
        if not faults and cells[2] == "":
            problems.append(f"{number}: neither a planted fault nor why there is none")
    unnamed = {path.stem for path in PLANTED.glob("*.patch")} - named
    problems += [f"no promise names the planted fault {name}" for name in sorted(unnamed)]
    problems = [f"docs/promises.md:{problem}" for problem in problems] + drill_problems()
    if problems:
        sys.exit("\n".join(problems))
    print(f"{promises} promises: every test and every planted fault that they name is there")


if __name__ == "__main__":
    main()
