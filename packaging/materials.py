#!/usr/bin/env python3
"""Prints the notices of third parties, or the bill of materials, of an artefact.

    packaging/materials.py notices PACKAGE TARGET [CARGO-OPTION...]   as text
    packaging/materials.py sbom PACKAGE TARGET [CARGO-OPTION...]      CycloneDX 1.5, as JSON

PACKAGE is a crate of this workspace, TARGET a Rust target; the options select features. Only linked code counts: no tools of the build, no
procedural macros. The output does not depend on the machine or the time, so one commit always gives the same bytes.
"""
import json
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = uuid.UUID("f1d5a1a0-6c58-5d0b-8f0c-3f6f2f3f7c11")
PROGRAMS = {"statestored", "statestore-cli", "statestore-dapr"}
TEXTS = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)([-_.].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Crate:
    """A package that cargo resolved."""

    name: str
    version: str
    license: str
    authors: tuple[str, ...]
    repository: str | None
    folder: Path | None
    checksum: str | None
    ours: bool
    needs: tuple[str, ...]
    id: str

    @property
    def purl(self) -> str:
        return f"pkg:cargo/{self.name}@{self.version}"

    def texts(self) -> list[str]:
        """Texts of the licences in the package."""
        if self.folder is None:
            return []
        files = sorted(it for it in self.folder.iterdir() if it.is_file() and TEXTS.fullmatch(it.name))
        return [it.read_text(encoding="utf-8", errors="replace").strip() for it in files]


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def checksums() -> dict[tuple[str, str], str]:
    """The SHA-256 of each package in the registry, from the lock file."""
    entry = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"')
    return {(name, version): sha256 for name, version, sha256 in entry.findall((ROOT / "Cargo.lock").read_text())}


def linked(package: str, target: str, options: list[str]) -> tuple[Crate, list[Crate]]:
    """The crate of the artefact, and all linked crates, by name."""
    tree = cargo(
        "tree", "--locked", "--package", package, "--target", target, *options,
        "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}",
    )  # fmt: skip
    wanted = {(name, version.removeprefix("v")) for name, version, *_ in (line.split() for line in tree.splitlines())}
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target, *options))
    edges = {
        node["id"]: tuple(it["pkg"] for it in node["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"]))
        for node in metadata["resolve"]["nodes"]
    }
    known = checksums()
    crates = [
        Crate(
            name=it["name"],
            version=it["version"],
            license=(it["license"] or "unknown").replace("/", " OR "),
            authors=tuple(it["authors"]),
            repository=it["repository"],
            folder=Path(it["manifest_path"]).parent,
            checksum=known.get((it["name"], it["version"])),
            ours=it["source"] is None,
            needs=edges.get(it["id"], ()),
            id=it["id"],
        )
        for it in metadata["packages"]
        if (it["name"], it["version"]) in wanted
    ]
    crates.sort(key=lambda it: (it.name, it.version))
    return next(it for it in crates if it.name == package), crates


def rust() -> Crate:
    """The standard library, which cargo does not list."""
    said = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return Crate(
        name="The Rust standard library",
        version=said.split()[1],
        license="MIT OR Apache-2.0",
        authors=("The Rust Project Developers (see https://thanks.rust-lang.org)",),
        repository="https://github.com/rust-lang/rust",
        folder=None,
        checksum=None,
        ours=False,
        needs=(),
        id="",
    )


def without_text(crate: Crate) -> str:
    """The text for a package that only names its licence."""
    if "MIT" not in crate.license:
        raise SystemExit(f"materials.py: {crate.name} {crate.version} brings no text of its licence, {crate.license}")
    _title, _holder, text = (ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)
    holders = "\n".join(f"Copyright (c) {it}" for it in crate.authors or [f"the authors of {crate.name}"])
    return f"MIT License\n\n{holders}\n\n{text.strip()}"


def notices(artefact: Crate, crates: list[Crate]) -> str:
    foreign = [*(it for it in crates if not it.ours), rust()]
    by_text: dict[str, tuple[str, list[Crate]]] = {}
    for crate in foreign:
        for text in crate.texts() or [without_text(crate)]:
            by_text.setdefault(" ".join(text.split()), (text, []))[1].append(crate)
    lines = [
        f"Third parties whose code is in {artefact.name} {artefact.version}",
        "",
        "libstatestore itself is licensed under MIT or Apache-2.0, at your option. The programs and libraries that are made of it",
        "contain the code of these packages, under the licences whose texts follow.",
        "",
    ]
    for crate in foreign:
        lines.append(", ".join(filter(None, [f"  {crate.name} {crate.version}: {crate.license}", crate.repository])))
    for text, users in sorted(by_text.values(), key=lambda it: (-len(it[1]), it[1][0].name)):
        names = ", ".join(dict.fromkeys(f"{it.name} {it.version}" for it in users))
        lines += ["", "-" * 100, names, "-" * 100, "", text]
    return "\n".join(lines) + "\n"


def component(crate: Crate, kind: str = "library") -> dict:
    found = {
        "type": kind,
        "bom-ref": crate.purl,
        "name": crate.name,
        "version": crate.version,
        "purl": crate.purl,
        "licenses": [{"expression": crate.license}],
    }
    if crate.checksum is not None:
        found["hashes"] = [{"alg": "SHA-256", "content": crate.checksum}]
    if crate.repository is not None:
        found["externalReferences"] = [{"type": "vcs", "url": crate.repository}]
    return found


def sbom(artefact: Crate, crates: list[Crate]) -> str:
    by_id = {it.id: it for it in crates}
    others = [it for it in crates if it is not artefact]
    std = rust()
    runtime = {**component(std), "name": "rust-std", "bom-ref": f"rust-std@{std.version}"}
    del runtime["purl"]
    dependencies = [
        {"ref": it.purl, "dependsOn": sorted({by_id[need].purl for need in it.needs if need in by_id})} for it in crates
    ]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(artefact, "application" if artefact.name in PROGRAMS else "library")},
        "components": [*map(component, others), runtime],
        "dependencies": dependencies,
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(bill, sort_keys=True))}"
    return json.dumps(bill, indent=2) + "\n"


def main() -> None:
    kinds = {"notices": notices, "sbom": sbom}
    if len(sys.argv) < 4 or sys.argv[1] not in kinds:
        raise SystemExit(__doc__)
    kind, package, target, *options = sys.argv[1:]
    sys.stdout.write(kinds[kind](*linked(package, target, options)))


if __name__ == "__main__":
    main()
