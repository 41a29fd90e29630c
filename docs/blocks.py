#!/usr/bin/env python3
"""The blocks of code in the documentation, and which step of scripts/test runs them.

    docs/blocks.py check            every block has a runner, or says why not; lists those that say so
    docs/blocks.py list STEP        the blocks that STEP runs, as JSON

A runner takes all blocks of its languages from here, of every page, so none is forgotten. `text` is for what is only looked at. A
comment in front of a block says what no reader needs to see:

    <!-- not run: REASON -->        nobody can run this one in a test
    <!-- before: COMMANDS -->       what a runner does first, in the block's language
"""

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RUNNERS = {
    "c": "compilers",
    "cmake": "compilers",
    "console": "docs",
    "cpp": "compilers",
    "js": "node",
    "python": "python",
    "rust": "rust",
    "sh": "docs",
    "text": "",
    "ts": "node",
}
# What needs the library as installed, and one session in many blocks.
EXCEPTIONS = {("docs/c.md", "sh"): "compilers", ("docs/operations.md", "console"): "operations"}

# The documentation of a crate has this page, so that its blocks are tests of the crate.
INCLUDE = re.compile(r'include_str!\("([^"]+\.md)"\)')
COMMENT = re.compile(r"^<!-- (not run|before): ((?:(?!-->).)*) -->\n\Z", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)
# Four spaces make code as well, which then has no language, unless they continue an item of a list.
INDENTED = re.compile(r"(?<=\n\n)    \S")
ITEM = re.compile(r"^ *([-*+]|\d+\.) ")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    code: str
    before: str
    not_run: str

    @property
    def step(self) -> str:
        return EXCEPTIONS.get((self.page, self.language), RUNNERS.get(self.language, ""))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def tracked(*patterns: str) -> list[str]:
    found = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        comment = COMMENT.search(text[: fence.start()])
        told = {comment[1]: comment[2]} if comment else {}
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, fence.start()) + 1,
                language=re.split("[, ]", fence[3])[0],
                code=fence[4],
                before=told.get("before", ""),
                not_run=told.get("not run", ""),
            )
        )
    return found


def pages() -> list[str]:
    return sorted(tracked("*.md"))


def blocks(step: str, *languages: str) -> list[Block]:
    """What a step runs, of these languages if any are named."""
    found = [block for page in pages() for block in blocks_of(page) if block.step == step and not block.not_run]
    return [block for block in found if not languages or block.language in languages]


def indented(page: str) -> list[int]:
    """The lines where code begins by four spaces alone."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    lines = []
    for found in INDENTED.finditer(text):
        before = [line for line in text[: found.start()].splitlines() if line and not line.startswith("  ")]
        if not (before and ITEM.match(before[-1])):
            lines.append(text.count("\n", 0, found.start()) + 1)
    return lines


def tested_by_crates() -> set[str]:
    found = set()
    for source in tracked("*/src/lib.rs"):
        path = ROOT / source
        for page in INCLUDE.findall(path.read_text(encoding="utf-8")):
            found.add(str((path.parent / page).resolve().relative_to(ROOT)))
    return found


def fault(block: Block, crates: set[str]) -> str:
    if block.not_run:
        return ""
    if block.language not in RUNNERS:
        return f"{block}: nobody runs {block.language or 'what has no language'}"
    if block.step == "rust" and block.page not in crates:
        return f"{block}: no crate includes {block.page} in its documentation"
    return ""


def check() -> None:
    crates = tested_by_crates()
    every = [block for page in pages() for block in blocks_of(page)]
    faults = [found for found in (fault(block, crates) for block in every) if found]
    faults += [f"{page}:{line}: this code has no language, and no fence" for page in pages() for line in indented(page)]
    if faults:
        raise SystemExit("\n".join(faults))
    steps: dict[str, int] = {}
    for block in every:
        if block.step and not block.not_run:
            steps[block.step] = steps.get(block.step, 0) + 1
    print("blocks of code:", ", ".join(f"{count} by scripts/test {step}" for step, count in sorted(steps.items())))
    for block in every:
        if block.not_run:
            print(f"  {block} is not run: {block.not_run}")


def main() -> None:
    match sys.argv[1:]:
        case ["check"]:
            check()
        case ["list", step]:
            json.dump([{"name": str(block), **asdict(block)} for block in blocks(step)], sys.stdout)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
