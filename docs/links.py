#!/usr/bin/env python3
"""The links of the documentation.

    docs/links.py check     every link to a file or a heading leads somewhere, and every page is in the book
    docs/links.py           as a preprocessor of mdBook: what leads out of the book leads to the repository

What is on other machines is not looked at.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/libstatestore/libstatestore/blob/main/"
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def without_code(text: str) -> str:
    """With the blocks of code, and what is quoted in a line, left empty."""
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`)[^\n]*?(?<!`)\1(?!`)", "", text)


def anchors(page: Path) -> set[str]:
    """The names of its headings, as GitHub and mdBook make them."""
    found: dict[str, int] = {}
    names = set()
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        names.add(name if name not in found else f"{name}-{found[name]}")
        found[name] = found.get(name, 0) + 1
    return names


def broken(page: Path) -> list[str]:
    faults = []
    for link in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            faults.append(f"{page.relative_to(ROOT)}: {link} leads nowhere")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            faults.append(f"{page.relative_to(ROOT)}: {target.name} has no heading #{anchor}")
    return faults


def check() -> None:
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notes/*.md")])
    faults = [fault for page in pages for fault in broken(page)]
    summary = (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8")
    faults += [
        f"docs/SUMMARY.md does not have {page.name}"
        for page in sorted(ROOT.glob("docs/*.md"))
        if page.name != "SUMMARY.md" and f"({page.name})" not in summary
    ]
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"the links of {len(pages)} pages lead somewhere")


def rewrite(item: object) -> None:
    """Chapters, and their chapters."""
    if not isinstance(item, dict):
        return
    chapter = item.get("Chapter")
    if chapter is not None:
        chapter["content"] = re.sub(r"\]\(\.\./", f"]({REPOSITORY}", chapter["content"])
        for child in chapter["sub_items"]:
            rewrite(child)


def main() -> None:
    match sys.argv[1:]:
        case ["check"]:
            check()
        case ["supports", renderer]:
            raise SystemExit(renderer != "html")
        case []:
            _context, book = json.load(sys.stdin)
            for item in book.get("items", book.get("sections", [])):
                rewrite(item)
            json.dump(book, sys.stdout)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
