"""Tests the recipes for Conan, vcpkg and Yocto: `packaging/recipes.py` with the packages of packaging/recipes.txt.

- Conan builds the package as it is in Debug, static and shared, and runs programs that use it.
- CMake runs the port of vcpkg with stubs of vcpkg's functions, and its manifest has the version of the header.
- oelint-adv reads the recipe of Yocto, whose checksums are those of the licences.

CARGO_TARGET_DIR names what cargo has built.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
TOOLS = Path(sys.executable).parent
VERSION = re.search(r'^#define SST_VERSION "(.*)"$', (ROOT / "include/statestore.h").read_text(), re.MULTILINE)[1]

# Functions of vcpkg; each prints its name and arguments.
STUBS = [
    "vcpkg_check_features", "vcpkg_cmake_config_fixup", "vcpkg_cmake_configure", "vcpkg_cmake_install", "vcpkg_fixup_pkgconfig",
    "vcpkg_from_github", "vcpkg_install_copyright", "vcpkg_replace_string",
]
# Rules of oelint-adv that a recipe outside a layer, and without a release, cannot keep.
UNKEPT = ["oelint.file.includenotfound", "oelint.file.requireinclude", "oelint.vars.autorev", "oelint.vars.homepageping"]


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}")
    return done.stdout


def conan(scratch: Path) -> None:
    environment = {**os.environ, "CONAN_HOME": str(scratch / "conan")}
    program = TOOLS / "conan"
    run(program, "profile", "detect", env=environment)
    # Conan builds the test beside its recipe, which here is a copy.
    test = shutil.copytree(PACKAGING / "conan/test_package", scratch / "test_package")
    for shared in (False, True):
        options = ("-s", "build_type=Debug", "-o", f"&:shared={shared}", "--test-folder", test)
        printed = run(program, "create", PACKAGING / "conan", *options, env=environment)
        for language in ("C", "C++"):
            assert f"libstatestore {VERSION} from {language}\n" in printed, printed


def vcpkg(scratch: Path) -> None:
    manifest = json.loads((PACKAGING / "vcpkg/vcpkg.json").read_text())
    assert manifest["version"] == VERSION, manifest["version"]
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", manifest["name"])
    assert set(manifest["default-features"]) <= set(manifest["features"])
    script = scratch / "port.cmake"
    folder = scratch / "packages"
    for linkage, kept in (("static", "libstatestore.a"), ("dynamic", f"libstatestore.so.{VERSION}")):
        for name in ("libstatestore.a", f"libstatestore.so.{VERSION}"):
            file = folder / "lib" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        stubs = "".join(f'function({name})\n  message(STATUS "{name} ${{ARGN}}")\nendfunction()\n' for name in STUBS)
        variables = {"VERSION": VERSION, "VCPKG_LIBRARY_LINKAGE": linkage, "CURRENT_PACKAGES_DIR": folder, "SOURCE_PATH": ROOT}
        given = "".join(f'set({name} "{value}")\n' for name, value in variables.items())
        script.write_text(f'{stubs}{given}include("{PACKAGING}/vcpkg/portfile.cmake")\n')
        printed = run("cmake", "-P", script)
        missing = [name for name in STUBS if name not in printed]
        assert not missing, missing
        assert [file.name for file in (folder / "lib").iterdir()] == [kept], linkage
    # What the port changes is there.
    assert '}/../../@TO_PREFIX@"' in (ROOT / "ffi/package/StateStoreConfig.cmake.in").read_text()
    lists = (ROOT / "CMakeLists.txt").read_text()
    for option in re.findall(r"STATESTORE_\w+", (PACKAGING / "vcpkg/portfile.cmake").read_text()):
        assert option in lists, option


def yocto() -> None:
    recipe = PACKAGING / "yocto/statestore_git.bb"
    text = recipe.read_text()
    assert f'PV = "{VERSION}+git' in text
    checksums = re.findall(r"file://([\w-]+);md5=(\w+)", text)
    assert checksums
    for name, checksum in checksums:
        assert hashlib.md5((ROOT / name).read_bytes(), usedforsecurity=False).hexdigest() == checksum, name
    suppressed = [argument for rule in UNKEPT for argument in ("--suppress", rule)]
    run(TOOLS / "oelint-adv", "--quiet", *suppressed, recipe)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        vcpkg(scratch)
        yocto()
        conan(scratch)
    print("the recipes for Conan, vcpkg and Yocto work as far as they can be tested here")


if __name__ == "__main__":
    main()
