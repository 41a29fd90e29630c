"""Counts the tests in the logs of steps: count_tests.py STEP.log…

Prints one line for each runner, the tests that steps left out ("left out: …" in a log), the tests that failed, and last
"N passed, N failed".
"""

import re
import sys
from collections import Counter
from pathlib import Path

RUNNERS = {
    "Rust": re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed", re.MULTILINE),
    "pytest": re.compile(r"^=+ (?=.*(?:passed|failed))(?:(?P<failed>\d+) failed)?,? ?(?:(?P<passed>\d+) passed)?.* in [\d.]+s", re.MULTILINE),
    "node": re.compile(r"^ℹ (?:pass (?P<passed>\d+)|fail (?P<failed>\d+))$", re.MULTILINE),
    "ctest": re.compile(r"tests passed, (?P<failed>\d+) tests? failed out of (?P<all>\d+)"),
    "go": re.compile(r"^\s*--- (?:(?P<one_passed>PASS)|(?P<one_failed>FAIL)):", re.MULTILINE),
}
# The line in which each runner names a test that failed, with its reason if the line has it.
FAILURES = [
    re.compile(r"^test (?P<test>\S+) \.\.\. FAILED$", re.MULTILINE),
    re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+::.*)$", re.MULTILINE),
    re.compile(r"^\s*✖ (?P<test>.+) \([\d.]+ms\)$", re.MULTILINE),
    re.compile(r"^\s*\d+ - (?P<test>\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted)\)", re.MULTILINE),
    re.compile(r"^\s*--- FAIL: (?P<test>\S+)", re.MULTILINE),
]
COLOURS = re.compile(r"\x1b\[[\d;]*m")


def count(text: str) -> dict[str, tuple[int, int]]:
    """Passed and failed tests of each runner that has reported."""
    found = {}
    for runner, pattern in RUNNERS.items():
        passed = failed = 0
        for match in pattern.finditer(text):
            groups = {name: value for name, value in match.groupdict().items() if value}
            failures = int(groups.get("failed", 0))
            failed += failures + ("one_failed" in groups)
            passed += int(groups.get("passed", 0)) + ("one_passed" in groups)
            passed += int(groups["all"]) - failures if "all" in groups else 0
        if passed or failed:
            found[runner] = passed, failed
    return found


def failures(text: str) -> list[str]:
    """The tests that failed, each once."""
    names = [match["test"] for pattern in FAILURES for match in pattern.finditer(text)]
    return list(dict.fromkeys(names))


def main() -> None:
    total = Counter()
    left_out, failed_tests = [], []
    for name in sys.argv[1:]:
        text = COLOURS.sub("", Path(name).read_text(encoding="utf-8", errors="replace"))
        left_out += re.findall(r"^left out: (.*)$", text, re.MULTILINE)
        failed_tests += [f"{Path(name).stem}: {test}" for test in failures(text)]
        for runner, (passed, failed) in count(text).items():
            print(f"  {Path(name).stem:10} {passed:5} passed, {failed} failed ({runner})")
            total["passed"] += passed
            total["failed"] += failed
    if left_out:
        print("\nLeft out here; \"scripts/test all\" runs them:")
        for line in left_out:
            print(f"  {line}")
    if failed_tests:
        print("\nFailed tests:")
        for test in failed_tests:
            print(f"  {test}")
    print(f"\n{total['passed']} passed, {total['failed']} failed")


if __name__ == "__main__":
    main()
