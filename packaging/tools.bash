# How the artefacts are compiled, and what goes into all of them. Sourced by scripts/package.

say() { printf '\n-- %s\n' "$*"; }

# tool NAME REQUIREMENT...: an environment with programs from PyPI, whose folder comes first in PATH from here on.
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

# Zig, its use as a linker by cargo, and what makes wheels.
compilers() {
  tool maturin maturin==1.16.0 wheel==0.48.0
  [[ -n "$native" ]] || tool zig ziglang==0.17.1 cargo-zigbuild==0.24.0
}

# Where cargo puts what it built.
built() {
  local folder=$profile
  [[ "$profile" != dev ]] || folder=debug
  if [[ -n "$native" ]]; then echo "$CARGO_TARGET_DIR/$folder"; else echo "$CARGO_TARGET_DIR/$target/$folder"; fi
}

# compile PACKAGE[:FEATURES]...: each by itself, so that none has what another one needs.
compile() {
  compilers
  local wanted options
  for wanted in "$@"; do
    options=(--locked --profile "$profile" --package "${wanted%:*}")
    [[ "$wanted" != *:* ]] || options+=(--features "${wanted#*:}")
    if [[ -n "$native" ]]; then
      cargo build "${options[@]}"
    else
      cargo zigbuild "${options[@]}" --target "$target$([[ "$target" != *-gnu ]] || echo ".$glibc")"
    fi
  done
}

# library_of CRATE: what a shared library is called where it is for.
library_of() {
  case "$target" in
    *-apple-*) echo "lib$1.dylib" ;;
    *-windows-*) echo "$1.dll" ;;
    *) echo "lib$1.so" ;;
  esac
}

# stripped FILE COPY: without symbols. Cargo leaves them out of what is optimised.
stripped() {
  if [[ "$profile" == dev && "$target" == "$host" && "$target" == *-linux-* ]]; then strip -o "$2" "$1"; else cp "$1" "$2"; fi
}

# materials PACKAGE[:FEATURES] FOLDER: the notices and the bill of materials of what PACKAGE is compiled to.
materials() {
  local package=${1%:*} options=()
  [[ "$1" != *:* ]] || options=(--features "${1#*:}")
  mkdir -p "$2"
  packaging/materials.py notices "$package" "$target" "${options[@]}" >"$2/THIRD-PARTY-NOTICES.txt"
  packaging/materials.py sbom "$package" "$target" "${options[@]}" >"$2/$package.cdx.json"
}

# A bill of materials is what the standard says.
check_sbom() {
  tool sbom 'cyclonedx-python-lib[json-validation]==11.12.0'
  # On Windows an environment has no python3.
  python - "$1" <<'PY'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1], encoding="utf-8").read()
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
sys.exit(f"{sys.argv[1]}: {error}" if error else 0)
PY
}
