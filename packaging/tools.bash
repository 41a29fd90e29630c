# Tools that compile the artefacts, and the texts that all of them contain. Sourced by scripts/package.

say() { printf '\n-- %s\n' "$*"; }

# tool NAME REQUIREMENT...: installs programs from PyPI into an environment, and puts its folder first in PATH.
tool() {
  local folder="$work/tools/$1" programs=bin
  shift
  [[ "$host" != *-windows-* ]] || programs=Scripts
  if [[ "$(cat "$folder/requirements.txt" 2>/dev/null)" != "$*" ]]; then
    python3 -m venv --clear "$folder"
    "$folder/$programs/python" -m pip install -q --disable-pip-version-check "$@"
    echo "$*" >"$folder/requirements.txt"
  fi
  PATH="$folder/$programs:$PATH"
}

# Installs maturin, and Zig as a linker for cargo.
compilers() {
  tool maturin maturin==1.16.0 wheel==0.48.0
  [[ -n "$native" ]] || tool zig ziglang==0.17.1 cargo-zigbuild==0.24.0
}

# Prints the folder of the compiled programs.
built() {
  local folder=$profile
  [[ "$profile" != dev ]] || folder=debug
  if [[ -n "$native" ]]; then echo "$CARGO_TARGET_DIR/$folder"; else echo "$CARGO_TARGET_DIR/$target/$folder"; fi
}

# compile PACKAGE[:FEATURES]...: compiles each by itself, so that none gets the features of another.
compile() {
  compilers
  local wanted options
  for wanted in "$@"; do
    options=(--locked --profile "$profile" --package "${wanted%:*}")
    [[ "$wanted" != *:* ]] || options+=(--features "${wanted#*:}")
    if [[ -n "$native" ]]; then
      cargo build "${options[@]}"
    else
      cargo zigbuild "${options[@]}" --target "$target$([[ "$target" != *-linux-gnu* ]] || echo ".$glibc")"
    fi
  done
}

# library_of CRATE: prints the file name of a shared library on the target.
library_of() {
  case "$target" in
    *-apple-*) echo "lib$1.dylib" ;;
    *-windows-*) echo "$1.dll" ;;
    *) echo "lib$1.so" ;;
  esac
}

# stripped FILE COPY: copies a program without symbols. Cargo strips optimised programs itself.
stripped() {
  if [[ "$profile" == dev && "$target" == "$host" && "$target" == *-linux-* ]]; then strip -o "$2" "$1"; else cp "$1" "$2"; fi
}

# materials PACKAGE[:FEATURES] FOLDER: writes the notices and the bill of materials of the compiled PACKAGE.
materials() {
  local package=${1%:*} options=()
  [[ "$1" != *:* ]] || options=(--features "${1#*:}")
  mkdir -p "$2"
  packaging/materials.py notices "$package" "$target" "${options[@]}" >"$2/THIRD-PARTY-NOTICES.txt"
  packaging/materials.py sbom "$package" "$target" "${options[@]}" >"$2/$package.cdx.json"
}

# check_sbom FILE: validates a bill of materials against its schema.
check_sbom() {
  tool sbom 'cyclonedx-python-lib[json-validation]==11.12.0'
  # An environment on Windows has no python3.
  python - "$1" <<'PY'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1], encoding="utf-8").read()
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
sys.exit(f"{sys.argv[1]}: {error}" if error else 0)
PY
}
