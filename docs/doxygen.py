#!/usr/bin/env python3
"""A file as Doxygen reads it, with the same lines: `docs/doxygen.py FILE`. See docs/Doxyfile.

- Comments of statestore.h become documentation, and the comment at the top of a header that of the file.
- Fields that mean the same in every struct of statestore.h get their comments.
- The inline namespace of the C++ headers is left out of the names.
- Links of a page of the book lead to the repository.
"""

import re
import sys
from pathlib import Path

from links import REPOSITORY

# Fields that the top of statestore.h documents for all structs.
FIELDS = {
    "size_t size;": "Size of the struct in bytes, `sizeof` of it.",
    "void *context;": "Context of the functions.",
    "void (*call)(": "Called exactly once, with the result.",
    "void (*drop)(": "Drops the context, exactly once, after the last call.",
}
INLINE_NAMESPACE = re.compile(r"^(inline namespace STATESTORE_VARIANT \{|\}  // namespace STATESTORE_VARIANT)$", re.MULTILINE)


def with_file_comment(text: str) -> str:
    """The comment at the top again at the end, as that of the file."""
    top = re.match(r"(?://.*\n)+", text)
    return text + re.sub("^//", "///", "// \\file\n//\n" + top[0], flags=re.MULTILINE) if top else text


def with_fields(text: str) -> str:
    """Comments for fields without one."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        for field, comment in FIELDS.items():
            if line.startswith(f"    {field}") and not lines[number - 1].lstrip().startswith("//"):
                lines[number] = f"    /** {comment} */ {line.lstrip()}"
    return "\n".join(lines)


def main(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".h":
            top, guard, declarations = text.partition("#ifndef")
            text = with_file_comment(top + guard + with_fields(re.sub(r"^( *)//(?= |$)", r"\1///", declarations, flags=re.MULTILINE)))
        case ".hpp":
            text = with_file_comment(INLINE_NAMESPACE.sub("", text))
        case ".md":
            text = re.sub(r"\]\((?![a-z]+:|#)(?:\.\./)?", lambda link: f"]({REPOSITORY}" + ("" if link[0].endswith("../") else "docs/"), text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
