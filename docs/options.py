#!/usr/bin/env python3
"""The tables of options in docs/configuration.md, from the help of the server.

    docs/options.py check PROGRAM     the page has the options of this statestored, built with etcd and Redis
    docs/options.py write PROGRAM     writes the tables
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/configuration.md"
BEGIN, END = "<!-- docs/options.py begins -->\n", "<!-- docs/options.py ends -->\n"
# Tests that a reload applies these options, and only these.
RELOADS = ROOT / "tests/mqtt/test_reload.py"
ONLY_ON_COMMAND_LINE = ("config", "check")
OPTION = re.compile(r"^ {2}(?:-\w, | {4})--(?P<name>[a-z-]+)(?: \[?<(?P<value>[^>]+)>\]?)?$")
DEFAULT = re.compile(r" ?\[default: (?P<default>[^\]]+)\]")
POSSIBLE = re.compile(r" ?\[possible values: (?P<values>[^\]]+)\]")


def in_code(text: str) -> str:
    """With the names of options and the URLs as code."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"(?<!\w)(--[a-z][a-z-]*[a-z]|[a-z]+://[^\s,;]*[\w\]])", r"`\1`", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")


def inside(text: str) -> str:
    """A sentence as a part of another."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


@dataclass
class Option:
    group: str
    name: str
    value: str
    lines: list[str] = field(default_factory=list)

    def cells(self, reloaded: set[str]) -> list[str]:
        text, _, listed = "\n".join(self.lines).partition("Possible values:")
        text = " ".join(text.split())
        values = [" ".join(item.split()) for item in re.findall(r"^ *- (.*(?:\n(?! *- |\s*$|.*\[default).*)*)", listed, re.MULTILINE)]
        found = DEFAULT.search(" ".join([text, *listed.split()]))
        possible = POSSIBLE.search(text)
        text = POSSIBLE.sub("", DEFAULT.sub("", text))
        if possible:
            values = [f"`{value}`" for value in possible["values"].split(", ")]
        else:
            values = [f"`{value}`: {inside(meaning)}" for value, _, meaning in (item.partition(": ") for item in values)]
        if values:
            separator = "; " if ": " in values[0] else ", "
            text = f"{text}{'; ' if ':' in text else ': '}{separator.join(values)}"
        variable = f"`STATESTORED_{self.name.replace('-', '_').upper()}`"
        here = self.name in ONLY_ON_COMMAND_LINE
        return [
            f"`--{self.name}{f' {self.value}' if self.value else ''}`",
            variable,
            "" if here else f"`{self.name}`",
            "" if not found else in_code(found["default"]) if " " in found["default"] else f"`{found['default']}`",
            in_code(text),
            "" if here else "yes" if self.name in reloaded else "no",
        ]


def options(help_text: str) -> Iterator[Option]:
    """The options that the long help lists, except those that every program has."""
    group, option = "", None
    for line in help_text.partition("\nOptions:\n")[2].partition("\nExamples:\n")[0].splitlines():
        if found := OPTION.match(line):
            if option:
                yield option
            option = Option(group, found["name"], found["value"] or "") if found["name"] not in ("help", "version") else None
        elif line.endswith(":") and not line.startswith(" "):
            group = line[:-1]
        elif option:
            option.lines.append(line)
    if option:
        yield option


def reloaded() -> set[str]:
    """The options that test_reload.py reloads."""
    for node in ast.parse(RELOADS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "BEFORE":
            assert isinstance(node.value, ast.Dict)
            return {key.value for value in node.value.values if isinstance(value, ast.Dict) for key in value.keys if isinstance(key, ast.Constant)}
    sys.exit(f"{RELOADS} has no table BEFORE")


def tables(listed: list[Option]) -> str:
    known, lines, group = reloaded(), [], None
    for option in listed:
        if option.group != group:
            group = option.group
            lines += ["", *([f"### {group}", ""] if group else [])]
            lines += ["|option|environment|file|default|effect|reload|", "|---|---|---|---|---|---|"]
        lines.append(f"|{'|'.join(option.cells(known))}|")
    return "\n".join(lines) + "\n\n"


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    program = sys.argv[2]
    listed = list(options(subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout))
    names = {option.name for option in listed}
    for engine in ("etcd", "redis"):
        if f"{engine}-ca" not in names:
            sys.exit(f"{program} is built without {engine}, whose options the page has")
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{PAGE} lacks the lines around its tables of options")
    new = tables(listed)
    if sys.argv[1] == "write":
        PAGE.write_text(f"{before}{begin}{new}{end}{after}", encoding="utf-8")
    elif old != new:
        changed = sorted(set(old.splitlines()) ^ set(new.splitlines()))
        sys.exit("\n".join(["docs/configuration.md differs from the help of the server; run docs/options.py write:", *changed]))
    print(f"{len(listed)} options are in docs/configuration.md")


if __name__ == "__main__":
    main()
