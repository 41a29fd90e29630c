"""Nothing is missing beside the header: `calls.py HEADER FACE SOURCE...`.

HEADER is statestore.h, FACE the folder with the headers of C++, the sources are the tests in C. Every function of the header is
called by the tests and by the headers of C++, and has a twin with the suffix `_async` if it says that it blocks.
"""

import pathlib
import re
import sys

# What C++ does without.
NOT_IN_CXX = {
    "sst_results_failed": "each of the `statestore::expected` says it",
    "sst_error_clone": "`statestore::error` is a value, which is copied",
}

# What blocks and has no twin.
WITHOUT_TWIN = {
    "sst_client_close_within": "sst_client_close_async() does not wait at all",
    "sst_operation_close": "sst_operation_cancel() does not wait",
    "sst_subscription_close": "sst_subscription_cancel() does not wait",
    "sst_queue_free": "it waits only for clients that were not closed before, which sst_client_close_async() begins",
}


def code(paths: list[pathlib.Path]) -> str:
    """The texts without their comments."""
    return re.sub(r"//.*", "", "".join(path.read_text() for path in paths))


def comments(header: str) -> dict[str, str]:
    """The functions of the header with their comments, each on one line."""
    found = {}
    for block in header.split("\n\n"):
        lines = block.splitlines()
        comment = " ".join(line.removeprefix("//").strip() for line in lines if line.startswith("//"))
        declaration = " ".join(line for line in lines if not line.startswith(("//", "#")))
        if name := re.match(r"[\w\s*]*?\b(sst_\w+)\(", declaration):
            found[name[1]] = comment
    return found


def main(header: pathlib.Path, face: pathlib.Path, *sources: pathlib.Path) -> int:
    declared = set(re.findall(r"\b(sst_\w+)\(", code([header])))
    tested = set(re.findall(r"\b(sst_\w+)\(", code([*sources])))
    in_cxx = set(re.findall(r"\bsst_\w+", code([*face.glob("**/*.hpp")])))
    said = comments(header.read_text())
    blocking = {name for name, comment in said.items() if "Blocks:" in comment}
    twins = {name for name in declared if name.endswith("_async")}
    faults = {
        "without a comment": declared ^ said.keys(),
        "never called by the tests in C": declared - tested,
        "blocks and has no twin": {name for name in blocking if f"{name}_async" not in twins} - WITHOUT_TWIN.keys(),
        "does not block, or has a twin after all": {name for name in WITHOUT_TWIN if name not in blocking or f"{name}_async" in twins},
        "blocks although it is a twin": twins & blocking,
        "is the twin of what does not block": {name for name in twins if name.removesuffix("_async") not in blocking},
        "not in the headers of C++": declared - in_cxx - NOT_IN_CXX.keys(),
        "in the headers of C++ after all": NOT_IN_CXX.keys() & in_cxx,
    }
    print(f"{len(declared)} functions are declared, {len(blocking)} of them block")
    for fault, names in faults.items():
        if names:
            print(f"{fault}: {', '.join(sorted(names))}", file=sys.stderr)
    return not declared or any(faults.values())


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
