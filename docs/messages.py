#!/usr/bin/env python3
"""The wording of messages: errors, log lines, help, and the texts of the C header, the Python package and the Node package.

    docs/messages.py check     messages that break a rule
    docs/messages.py           every message, with its kind, file and line

No message says "somebody" or the like, or a term that docs/glossary.md replaces, and no sentence begins with "who" or "what". Errors and
log lines begin in lower case, unless with a name, and end without a full stop. No sentence has more than MAX_WORDS words.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import prose

ROOT = Path(__file__).resolve().parent.parent
MAX_WORDS = 40
SOURCES = re.compile(
    r"(server|core|cli|ffi|dapr)/(.*/)?src/.*\.rs|bindings/\w+/src/.*\.rs|include/.*\.h(pp)?|bindings/python/python/.*\.pyi?"
    r"|bindings/node/(face/.*|[\w.]+)\.(mjs|js|ts|mts)|server/admin/src/.*\.js"
)
TESTS = re.compile(r"(^|/)tests?(/|\.rs$)")
UNNAMED = re.compile(r"\b(nobody|somebody|someone|everybody|everyone|anybody|anyone|whoever)\b", re.IGNORECASE)
OPENER = re.compile(r"(?:^|[.!?;] +)(who|what|whose|whom)\b", re.IGNORECASE | re.MULTILINE)
# "is no topic" is "is not a topic".
IS_NO = re.compile(r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b)[\w`-]+", re.IGNORECASE)
# A name may begin a message as it is written: a placeholder, `Redis`, `PUBACK`, `K8S-SAT`, `TimestampSkew`.
NAME = re.compile(r"[A-Z][a-z]*[A-Z0-9_]|[A-Z]{2}|SIGHUP|X\b|(Redis|Dapr|Linux|Mosquitto|Python|Windows|Node|Prometheus|Hello)\b")

RUST = re.compile(
    r"""(?P<doc>(?:^[ \t]*///[^\n]*\n)+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*")
    |'(?:\\[^']*|[^'\\])'""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)""", re.DOTALL
)
# What stands before a literal that is an error, or a log line.
ERROR = re.compile(r"(#\[error\(|\bErr\(|Error(::\w+)?\((\s*[\w:]+,)?|\b(bail|anyhow)!\(|\bnew \w*Error\(|\bcontext\()\s*(format!\(\s*)?$")
LOG = re.compile(r"\b(trace|debug|info|warn|error|event)!\((?:[^;\"]|\"\w*\")*$")


@dataclass(frozen=True)
class Message:
    kind: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text}"


def is_prose(text: str) -> bool:
    """Whether a literal is for people: three words in a row."""
    return re.search(r"[A-Za-z']+,? [A-Za-z']+,? [A-Za-z']{2,}", text) is not None


def paragraphs(text: str) -> str:
    """The paragraphs of a comment, each in a line."""
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n[ \t]*\n", text.strip()))


def without_tests(text: str) -> str:
    """Rust without its modules of tests, which end a file."""
    return re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.MULTILINE)[0]


def joined(literal: str) -> str:
    """The text of a literal of Rust or JavaScript, with a line for each line that is set apart from the one before."""
    body = re.sub(r"\\\n\s*", "", re.sub(r"^b?r?#*[\"'`]|[\"'`]#*$", "", literal)).replace('\\"', '"').replace("\\n", "\n")
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n(?=\s)|(?<=:)\n", body.strip()))


def of_rust(file: str, text: str) -> Iterator[Message]:
    text = without_tests(text)
    is_interface = file.startswith(("ffi/", "bindings/"))
    for found in RUST.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["doc"]:
            what_follows = text[found.end() : found.end() + 200]
            is_help = re.match(r"\s*(#\[allow[^\]]*\]\s*)?#\[(arg|command|value)\b", what_follows) or "clap::" in text
            if is_help or is_interface:
                yield Message("help", file, line, paragraphs(found["doc"].replace("///", "")))
        elif found["text"]:
            said = joined(found["text"])
            before = text[max(found.start() - 300, 0) : found.start()]
            # A reason for a lint is a comment.
            if is_prose(said) and not before.endswith("reason = "):
                kind = "error" if ERROR.search(before) else "log" if LOG.search(before) else "text"
                yield Message(kind, file, line, said)


def of_python(file: str, text: str) -> Iterator[Message]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and (doc := literal_of(node.value)):
            # A docstring, also that of an attribute.
            yield Message("help", file, node.lineno, paragraphs(doc))
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args[:1]:
                if said := literal_of(argument):
                    yield Message("error", file, node.lineno, said)


def literal_of(node: ast.expr) -> str:
    """The text of a literal, with {} for what is formatted."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def of_script(file: str, text: str) -> Iterator[Message]:
    for found in SCRIPT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["comment"] and found["comment"].startswith("/**"):
            yield Message("help", file, line, paragraphs(re.sub(r"^ *\*/?|/\*\*|\*/", "", found["comment"], flags=re.MULTILINE)))
        elif found["text"] and is_prose(said := joined(found["text"])):
            kind = "error" if ERROR.search(text[max(found.start() - 200, 0) : found.start()]) else "text"
            yield Message(kind, file, line, said)


def of_header(file: str, text: str) -> Iterator[Message]:
    for found in re.finditer(r"/\*.*?\*/|(?:^ *//[^\n]*\n)+", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, found.start()) + 1
        lines = re.split(r"\n(?=  )", re.sub(r"/\*+|\*/|^ *(\*|///?<?)", "", found[0], flags=re.MULTILINE))
        yield Message("help", file, line, "\n".join(" ".join(part.split()) for part in lines))


def messages() -> Iterator[Message]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    readers = {".rs": of_rust, ".py": of_python, ".pyi": of_python, ".h": of_header, ".hpp": of_header}
    for name in names:
        path = ROOT / name
        if SOURCES.fullmatch(name) and not TESTS.search(name) and path.exists():
            yield from readers.get(path.suffix, of_script)(name, path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """With X for what is quoted or filled in."""
    return re.sub(r"``[^`]*``|`[^`]*`|\{[^{}]*\}", "X", text)


def faults_of(message: Message, terms: dict[str, str]) -> list[str]:
    text = plain(message.text)
    faults = [f'name the program or person instead of "{word}"' for word in UNNAMED.findall(text)]
    faults += [f'no sentence begins with "{word}"' for word in OPENER.findall(text)]
    faults += [f'"{term}": the glossary has "{better}" instead' for term, better in terms.items() if re.search(rf"\b{re.escape(term)}\b", text, re.IGNORECASE)]
    if message.kind != "help":
        faults += [f'"{phrase}": write "is not a"' for phrase in IS_NO.findall(text)]
    longest = max(re.split(r"(?<=[.!?:;])\s+|\s+[-*|] |\n", text), key=lambda sentence: len(sentence.split()))
    if len(longest.split()) > MAX_WORDS:
        faults.append(f"a sentence has {len(longest.split())} words, {MAX_WORDS} at most are allowed")
    if message.kind in ("error", "log"):
        if message.text.endswith(".") and not message.text.endswith(("..", " e.g.")):
            faults.append("it ends with a full stop")
        if message.text[:1].isupper() and not NAME.match(message.text):
            faults.append("it begins with a capital letter")
    return faults


def main() -> None:
    every = list(messages())
    if sys.argv[1:] != ["check"]:
        for message in every:
            print(message)
        return
    terms = prose.replaced()
    faults = [f"{message}\n  {fault}" for message in every for fault in faults_of(message, terms)]
    if faults:
        sys.exit("\n".join(faults))
    kinds = Counter(message.kind for message in every)
    print(f"{len(every)} messages are worded by the rules: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")


if __name__ == "__main__":
    main()
