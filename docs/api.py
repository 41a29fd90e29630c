#!/usr/bin/env python3
"""Compares the tables of the page of all calls with the declarations of each language.

    docs/api.py check

A table of calls has names for all languages, in snake case: `NAME` (LANGUAGES: `OTHER`) differs in these languages, `NAME` (not in LANGUAGE)
is absent in that one. Each call and option has to be declared. The table of members has a column for each language, in its own casing.
Each row has to name all public members of its object.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/api.md"
SOURCES = {
    "Rust": ["core/src/*.rs", "core/src/client/**/*.rs", "core/src/lock/*.rs"],
    "C": ["include/statestore.h"],
    "C++": ["include/statestore/*.hpp"],
    "Python": [f"bindings/python/python/statestore/{name}" for name in ("_blocking.pyi", "_results.py", "options.py")],
    "Node": ["bindings/node/index.d.ts", "bindings/node/settings.d.ts"],
}
TEXTS = {name: "\n".join(path.read_text(encoding="utf-8") for glob in globs for path in sorted(ROOT.glob(glob))) for name, globs in SOURCES.items()}
# Calls that take the options of another one.
OPTIONS = {"get_many": "get", "set_many": "set", "del_many": "del", "vdel": "del", "with_lock": "lock", "election": "lock"}
ALIASES = {
    ("C++", "counters"): ("C", "counters"),
    ("Node", "scan_options"): ("Node", "timeout_options"),
    **{(language, "scan_entries_options"): (language, "scan_options") for language in ("Rust", "C", "C++")},
}
# Variants of a call that the page does not name.
VARIANT = re.compile(r"(_async)?(_with|_within)?$")
# Handles and sizes; `sst_client_id` is the call `client_id`. In Rust, what `statestore-intents` needs of a client.
HIDDEN = {"Rust": {"platform", "request_timeout", "unique_timestamp"}, "C": {"free", "new", "clone", "id", "size"}, "C++": {"raw"}}


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def found(pattern: str, text: str) -> list:
    return re.findall(pattern, text, re.MULTILINE | re.DOTALL)


def members(language: str, thing: str) -> set[str]:
    """The public names that an object or a struct of options declares."""
    language, thing = ALIASES.get((language, thing), (language, thing))
    text, name = TEXTS[language], thing if language in ("C", "C++") else camel(thing)
    names: list[str] = []
    if language == "Rust":
        for block in found(rf"^(?:impl|pub struct)(?:<[^>\n]*>)? {name}(?:<[^>\n]*>)? \{{\n(.*?)^\}}", text):
            names += found(r"^    pub (?:async )?fn (\w+)(?:<.*?>)?\(\s*&?(?:'\w+ )?(?:mut )?self\b", block) + found(r"^    pub (\w+):", block)
    elif language == "C":
        fields = found(r"^    (?!//)[^\n]*?(\w+);$", "\n".join(found(rf"^typedef struct sst_{name} \{{\n(.*?)^\}}", text)))
        names += [field.removesuffix("_ms") for field in fields + found(rf"\bsst_{name}_(\w+)\(", text)]
    elif language == "C++":
        for block in found(rf"^(?:class|struct)(?: \[\[nodiscard\]\])? {name}(?: : [^\n]*?)? \{{\n(.*?)^(?: private:|\}};)", text):
            names += found(r"^  (?! |explicit|friend|using|static)[\w:<>,*& ]+?[ *&](\w+)(?:\(|\{0\};| = [^;(]*;|;)", block)
    elif language == "Python":
        for block in found(rf"^class {name}\b[^\n]*:\n(.*?)(?=^\S|\Z)", text):
            names += found(r"^    (?:def )?([a-z]\w*)[(:]", block)
    else:
        for base, block in found(rf"^export (?:interface|class) {name}\b(?:<[^\n{{]*?>)?(?: extends (\w+)[^\n]*)? \{{\n(.*?)^\}}", text):
            names += [*found(r"^  (?:readonly )?(\w+)\??[(:<]", block), *(members(language, snake(base)) if base else [])]
    return set(names) - HIDDEN.get(language, set())


def options(language: str, call: str) -> set[str]:
    options = OPTIONS.get(call, call)
    if language == "Python" and options not in ("lease", "lock"):
        return {name for signature in found(rf"^    def {call}\((.*?)\) ->", TEXTS[language]) for name in found(r"(\w+):", signature)}
    return members(language, f"{options}_options")


def names(language: str, cell: str, renamed: dict[str, str]) -> list[str]:
    """The names that a cell for all languages has for one of them."""
    given = []
    for name, only, other, absent in found(r"`(\w+)[^`]*`(?: \(([^:`)]+): `(\w+)`\)| \(not in ([^)]*)\)|)", cell):
        if language in only.split(", "):
            renamed[name] = other
        if language != absent:
            name = renamed.get(name, name)
            given.append(name[0] + camel(name)[1:] if language == "Node" else name)
    return given


def problems_of(language: str) -> list[str]:
    problems: list[str] = []
    calls: set[str] = set()
    renamed: dict[str, str] = {}
    text = re.sub(r"(`?)\[([^\]]*)\]\([^)]*\)(`?)", lambda link: link[2].strip("`") if link[1] else link[2], PAGE.read_text(encoding="utf-8"))
    for table in found(r"(?:^\|[^\n]*\|\n)+", text):
        header, _, *rows = [[cell.strip() for cell in row[1:-1].split("|")] for row in table.splitlines()]
        for row in rows if header[0] in ("call", "object") else []:
            client = members(language, "client")
            client |= set(found(r"\bsst_(\w+?)(?:_new)?\(", TEXTS["C"])) if language == "C" else set()
            if header[0] == "call":
                named = set(names(language, row[0], renamed))
                calls |= named
                problems += [f"the client has no {name}" for name in named - client]
                given = names(language, row[1], dict(renamed)) if named and not row[1].startswith("as ") else []
                problems += [f"{call} has no option {name}" for call in named for name in given if name not in options(language, snake(call))]
            else:
                named, declared = {*names(language, row[1], renamed), *re.findall(r"`(\w+)`", row[header.index(language)])}, members(language, row[0])
                problems += [f"{row[0]} has no {name}" for name in named - (client if row[0] == "client" else declared)]
                named |= calls if row[0] == "client" else set()
                left = {VARIANT.sub("", name) for name in declared} - {VARIANT.sub("", name) for name in named}
                problems += [f"{row[0]} has {name} as well" for name in left]
    return [f"docs/api.md: {language}: {problem}" for problem in sorted(problems)]


if __name__ == "__main__":
    if sys.argv[1:] != ["check"]:
        sys.exit(__doc__)
    if problems := [problem for language in SOURCES for problem in problems_of(language)]:
        sys.exit("\n".join(problems))
    print("docs/api.md: its calls, options and members are those that each language declares")
