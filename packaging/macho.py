#!/usr/bin/env python3
"""Describes and checks programs and libraries for macOS, which this machine cannot run.

    packaging/macho.py STUBS FILE...

STUBS is the folder of the frameworks that the linker was given in place of Apple's. Each symbol in them must be used, so that
they describe no more of the system than the files need.
"""

import re
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

CPUS = {0x0100_0007: "x86_64", 0x0100_000C: "arm64"}
KINDS = {2: "program", 6: "library", 8: "bundle"}
LC_SYMTAB, LC_LOAD_DYLIB, LC_ID_DYLIB, LC_LOAD_WEAK_DYLIB = 0x2, 0xC, 0xD, 0x8000_0018
LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION, LC_CODE_SIGNATURE = 0x24, 0x32, 0x1D
N_STAB, N_PEXT, N_TYPE, N_EXT = 0xE0, 0x10, 0x0E, 0x01
HEADER = Path(__file__).resolve().parent.parent / "include/statestore.h"


@dataclass
class MachO:
    """What the load commands of a file say."""

    cpu: str
    kind: str
    name: str = ""
    oldest: str = ""
    signed: bool = False
    libraries: list[str] = field(default_factory=list)
    exports: set[str] = field(default_factory=set)
    # Symbols by the library that has them; "" for those that are looked up in every library.
    imports: dict[str, set[str]] = field(default_factory=dict)


def text_at(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def read(path: Path) -> MachO:
    data = path.read_bytes()
    magic, cpu, _, kind, count = struct.unpack_from("<5I", data)
    if magic != 0xFEED_FACF:
        raise ValueError(f"{path} is no 64-bit Mach-O file")
    found = MachO(CPUS[cpu], KINDS[kind])
    symbols = None
    offset = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, offset)
        if command in (LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB, LC_ID_DYLIB):
            name = text_at(data, offset + struct.unpack_from("<I", data, offset + 8)[0])
            if command == LC_ID_DYLIB:
                found.name = name
            else:
                found.libraries.append(name)
        elif command in (LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION):
            version = struct.unpack_from("<I", data, offset + (8 if command == LC_VERSION_MIN_MACOSX else 12))[0]
            found.oldest = f"{version >> 16}.{version >> 8 & 0xFF}"
        elif command == LC_CODE_SIGNATURE:
            found.signed = True
        elif command == LC_SYMTAB:
            symbols = struct.unpack_from("<4I", data, offset + 8)
        offset += size
    if symbols:
        read_symbols(data, found, *symbols)
    return found


def read_symbols(data: bytes, found: MachO, offset: int, count: int, strings: int, _: int) -> None:
    for index in range(count):
        name, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, offset + 16 * index)
        if kind & N_STAB or not kind & N_EXT:
            continue
        symbol = text_at(data, strings + name)
        if kind & N_TYPE:
            if not kind & N_PEXT:
                found.exports.add(symbol)
            continue
        ordinal = description >> 8
        library = found.libraries[ordinal - 1] if 0 < ordinal <= len(found.libraries) else ""
        found.imports.setdefault(library, set()).add(symbol)


def stubs(folder: Path) -> dict[str, set[str]]:
    """The symbols of each stub, by the name under which programs load the library."""
    found = {}
    for file in sorted(folder.glob("*/*.tbd")):
        text = file.read_text(encoding="utf-8")
        lists = re.findall(r"symbols: \[([^]]*)\]", text)
        found[re.search(r"install-name: '(.*)'", text)[1]] = {symbol for each in lists for symbol in re.findall(r"\w+", each)}
    return found


def main() -> None:
    folder, files = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    faults = []
    unused = stubs(folder)
    functions = set(re.findall(r"\b(sst_[a-z0-9_]+)\(", HEADER.read_text(encoding="utf-8")))
    for file in files:
        found = read(file)
        libraries = ", ".join(library.rsplit("/", 1)[1] for library in found.libraries)
        name = f", name {found.name}" if found.name else ""
        signed = "signed" if found.signed else "not signed"
        size = file.stat().st_size
        print(f"{file.name}: {found.kind} for {found.cpu}, macOS {found.oldest} or newer{name}, loads {libraries}, {signed}, {size} bytes")
        for library, symbols in found.imports.items():
            if library in unused:
                unused[library] -= symbols
        if not found.oldest:
            faults.append(f"{file.name} names no version of macOS")
        if found.kind == "library" and "libstatestore." in found.name:
            exports = {symbol.removeprefix("_") for symbol in found.exports}
            own = {symbol for symbol in exports if symbol.startswith("sst_")}
            print(f"  exports {len(own)} functions of the header, and {len(exports - own)} other symbols")
            faults += [f"{file.name} lacks {symbol}" for symbol in sorted(functions - exports)]
    for library, symbols in unused.items():
        faults += [f"no file needs {symbol} of {library}" for symbol in sorted(symbols)]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
