#!/usr/bin/env python3
"""The wording of the documentation.

    docs/prose.py check     the figures of each page and of the book, and terms that the glossary replaces
    docs/prose.py           the figures of each page
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs/glossary.md"
LONG = 30
# Percent of a page's sentences.
MAX_LONG = 6.0
# For each thousand words of sentences.
MIN_YOU = 5.0
# In docs, without blocks of code.
MAX_WORDS = 52_500
UNNAMED = re.compile(r"\b(nobody|somebody|everybody|whoever)\b", re.IGNORECASE)


def pages() -> list[Path]:
    return [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


def without_blocks(text: str) -> str:
    """Without blocks of code and comments."""
    return re.sub(r"^ *(`{3,}).*?^ *\1\s*$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)


def without_quotes(text: str) -> str:
    """With X for what is quoted in a line, and the text alone of a link."""
    return re.sub(r"`[^`\n]*`", "X", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))


def sentences(text: str) -> list[str]:
    """Those outside of headings and tables."""
    lines = [line for line in without_quotes(text).split("\n") if not line.startswith(("|", "#"))]
    found = []
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ", "\n".join(lines)):
        found += re.split(r"(?<=[.:;!?])\s+(?=[A-Z])", " ".join(paragraph.split()))
    return [sentence for sentence in found if len(sentence.split()) > 2]


@dataclass(frozen=True)
class Page:
    name: str
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())

    @property
    def long(self) -> list[str]:
        return [sentence for sentence in sentences(self.text) if len(sentence.split()) > LONG]

    @property
    def share_of_long(self) -> float:
        return 100 * len(self.long) / max(len(sentences(self.text)), 1)

    @property
    def running_words(self) -> int:
        """Those of sentences, without tables and headings."""
        return sum(len(sentence.split()) for sentence in sentences(self.text))

    @property
    def you(self) -> int:
        return sum(len(re.findall(r"\byour?\b", sentence, re.IGNORECASE)) for sentence in sentences(self.text))


def replaced() -> dict[str, str]:
    """The terms that the glossary replaces, with the terms to use."""
    _, _, table = GLOSSARY.read_text(encoding="utf-8").partition("## Replaced terms")
    return dict(re.findall(r"^\| (?!term|-)([^|]+?) \| ([^|]+?) \|$", table, re.MULTILINE))


def faults_of(page: Page, terms: dict[str, str]) -> list[str]:
    faults = []
    if page.share_of_long > MAX_LONG:
        faults += [f"{page.name}: {page.share_of_long:.1f} % of its sentences have over {LONG} words, the longest:", f"  {max(page.long, key=len)}"]
    text = without_quotes(page.text)
    faults += [f"{page.name}: name the program or the person instead of \"{word}\"" for word in UNNAMED.findall(text)]
    if page.name == "docs/glossary.md":
        return faults
    for term, better in terms.items():
        if re.search(rf"\b{re.escape(term)}\b", text, re.IGNORECASE):
            faults.append(f"{page.name}: \"{term}\": the glossary has \"{better}\" instead")
    return faults


def main() -> None:
    read = [Page(str(path.relative_to(ROOT)), without_blocks(path.read_text(encoding="utf-8"))) for path in pages()]
    words = sum(page.words for page in read if page.name.startswith("docs/"))
    per_thousand = 1000 * sum(page.you for page in read) / sum(page.running_words for page in read)
    if sys.argv[1:] != ["check"]:
        for page in read:
            print(f"{page.words:6} words, {page.share_of_long:4.1f} % long sentences, {page.you:3} you  {page.name}")
        print(f"{words:6} words, {per_thousand:.1f} you for each thousand")
        return
    terms = replaced()
    if not terms:
        sys.exit("docs/glossary.md has no table of replaced terms")
    faults = [fault for page in read for fault in faults_of(page, terms)]
    if words > MAX_WORDS:
        faults.append(f"the book has {words} words, {MAX_WORDS} are allowed")
    if per_thousand < MIN_YOU:
        faults.append(f"\"you\" stands {per_thousand:.1f} times in a thousand words, {MIN_YOU} are the least")
    if faults:
        sys.exit("\n".join(faults))
    print(f"the prose of {len(read)} pages: {words} words, {per_thousand:.1f} \"you\" for each thousand")


if __name__ == "__main__":
    main()
