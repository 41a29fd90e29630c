"""Docstrings of `statestore.aio`."""

import re


def asyncio_doc(doc):
    """A docstring of the blocking face with its examples as asyncio has them."""
    lines = doc.split("\n")
    for at, line in enumerate(lines):
        if line.lstrip().startswith((">>> ", "... ")):
            for pattern, replacement in _EXAMPLES:
                line = pattern.sub(replacement, line)
            lines[at] = line
    return "\n".join(lines)


_EXAMPLES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\bwith (client|election)\.", r"async with \1."),
        (r"\bnext\(", "await anext("),
        (r"sorted\((client\.scan\([^()]*\))\)", r"sorted([key async for key in \1])"),
        (r"\bfor (key, entry in client\.scan_entries\()", r"async for \1"),
        (r"\b(\w+\.synced\()", r"await \1"),
        (r"\bclient\.pipeline\(\)", r"await client.pipeline()"),
        # A call that is awaited: in brackets if an attribute of its result follows.
        (
            r"(?<!await )\b((?:client(?:\.lease\([^()]*\))?|lease|guard|election)\."
            r"(?:get|get_many|set|set_many|delete|delete_many|vdel|exists|ttl|touch|incr|ping|update|capabilities|transact|acquire|release|leader)"
            r"\((?:[^()]|\([^()]*\))*\))(\.\w+)?",
            lambda found: f"(await {found[1]}){found[2]}" if found[2] else f"await {found[1]}",
        ),
    ]
]
