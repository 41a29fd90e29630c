"""Writes what of the golden vectors concerns a client as C tables: `tables.py VECTORS TARGET`."""

import json
import pathlib
import sys


def text(value):
    """A byte string of the vectors as C bytes and their length; octal escapes cannot run into what follows."""
    raw = value.encode("latin-1")
    return '{"' + "".join(f"\\{byte:03o}" for byte in raw) + f'", {len(raw)}}}'


def vectors(folder):
    read = lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    yield "typedef struct text { const char *data; size_t len; } text;"
    yield "typedef struct kind { int code; const char *name; bool is_retryable; } kind;"
    yield "static const kind kinds[] = {"
    for kind in read("error_kinds")["kinds"]:
        yield f'  {{{kind["code"]}, "{kind["name"]}", {str(kind["retryable"]).lower()}}},'
    yield "};"
    yield "typedef struct ending { int code; const char *word; } ending;"
    yield "static const ending endings[] = {"
    for reason in read("lost_reasons")["reasons"]:
        yield f'  {{{reason["code"]}, "{reason["word"]}"}},'
    yield "};"
    yield "typedef struct stamp { text given; bool is_good; uint64_t wall_ms, counter; text written; } stamp;"
    yield "static const stamp stamps[] = {"
    hlc = read("hlc")
    for stamp in hlc["texts"]:
        good = "error" not in stamp["decode"]
        wall, counter = (stamp["decode"][part] if good else "0" for part in ("wall_ms", "counter"))
        written = stamp.get("encode", stamp["text"])
        yield f'  {{{text(stamp["text"])}, {str(good).lower()}, {wall}u, {counter}u, {text(written)}}},'
    yield "};"
    yield "static const text rising[] = {"
    for stamp in hlc["rising"]:
        yield f"  {text(stamp)},"
    yield "};"
    yield "typedef struct glob { text pattern, key; bool matches; } glob;"
    yield "static const glob globs[] = {"
    for glob in read("glob")["patterns"]:
        for member, expected in (("matches", "true"), ("differs", "false")):
            for key in glob[member]:
                yield f'  {{{text(glob["pattern"])}, {text(key)}, {expected}}},'
    yield "};"


def main():
    folder, target = map(pathlib.Path, sys.argv[1:3])
    lines = ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", *vectors(folder)]
    target.write_text("\n".join(lines) + "\n")


main()
