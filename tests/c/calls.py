"""Every function of the header is called by the tests in C: `calls.py HEADER SOURCE...`."""

import pathlib
import re
import sys

header, *sources = map(pathlib.Path, sys.argv[1:])
declared = set(re.findall(r"\b(sst_\w+)\(", re.sub(r"//.*", "", header.read_text())))
called = set(re.findall(r"\b(sst_\w+)\(", "".join(source.read_text() for source in sources)))
missing = sorted(declared - called)
print(f"{len(declared)} functions are declared, {len(missing)} of them never called", *missing)
sys.exit(len(declared) < 100 or bool(missing))
