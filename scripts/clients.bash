# Assembles the clients in C, Python and Node from the libraries of one compilation of the workspace. Sourced.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
clients="$CARGO_TARGET_DIR/clients"

# assemble_c: the C library with its headers, installed below $clients/c.
assemble_c() {
  [[ ! -f "$clients/c/share/doc/statestore/installed.txt" ]] || scripts/install --uninstall --prefix "$clients/c"
  scripts/install --no-build --profile dev --prefix "$clients/c"
}

# assemble_python: the Python package in $clients/python, with the metadata that a wheel has.
assemble_python() {
  local version info
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
  info="$clients/python/statestore-$version.dist-info"
  rm -rf "$clients/python"
  mkdir -p "$info"
  cp -r bindings/python/python/statestore "$clients/python/statestore"
  cp "$CARGO_TARGET_DIR/debug/libstatestore_python.so" "$clients/python/statestore/_native.abi3.so"
  printf 'Metadata-Version: 2.4\nName: statestore\nVersion: %s\n' "$version" >"$info/METADATA"
  python3 -c '
import re, sys
text = open("bindings/python/pyproject.toml", encoding="utf-8").read()
for group, entries in re.findall(r"^\[project\.entry-points\.(\w+)\]\n((?:\w.*\n)+)", text, re.MULTILINE):
    print(f"[{group}]\n" + entries.replace("\"", ""))
' >"$info/entry_points.txt"
}

# assemble_node: the Node package in its folder.
assemble_node() {
  (
    cd bindings/node
    [[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --no-audit --no-fund --loglevel=error
    node scripts/build.mjs --built
    node node_modules/typescript/bin/tsc -p face
  )
}

# prepare_clients SERVER BUILT [OPTION...]: assembles the clients of scripts/chaos and scripts/soak, and sets `programs` to the options that
# name them. SERVER is a server to test; if it is empty, one is built here with the cargo options given. Nothing is built if BUILT is not empty.
prepare_clients() {
  local place="$CARGO_TARGET_DIR/chaos" debug="$CARGO_TARGET_DIR/debug" lacking server=$1 built=$2
  shift 2
  lacking=$(missing rust cc readelf python node npm | listed)
  [[ -z "$lacking" ]] || { echo "$0: this machine lacks: $lacking" >&2; return 1; }
  local packages=(--package chaos --package statestore-ffi --package statestore-python --package statestore-node)
  [[ -n "$server" ]] || packages+=(--package statestored "$@")
  [[ -n "$built" ]] || cargo build --quiet --locked "${packages[@]}"
  mkdir -p "$place"
  assemble_c >/dev/null
  assemble_python
  assemble_node
  cc -std=gnu11 -O1 -g -Wall -Wextra -Werror -I"$clients/c/include" tests/chaos/clients/client.c -o "$place/client-c" \
    -L"$clients/c/lib" -lstatestore -lpthread -Wl,-rpath,"$clients/c/lib"
  cc -shared -fPIC -O1 tests/disk/disk.c -o "$place/disk.so" -ldl
  programs=(
    --server "${server:-$debug/statestored}" --c "$place/client-c" --disk "$place/disk.so"
    --python-path "$clients/python" --node-package "$PWD/bindings/node"
  )
}
